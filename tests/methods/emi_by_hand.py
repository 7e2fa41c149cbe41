"""One step of EMI written out once more, literally and slowly: loops, exponentials, no logs, no sharing.

What the package computes in stable and shared form is compared with this, for every switch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.data.views import rot16
from emi_bench.methods.emi_config import EMIConfig

EPS = 1e-8


@dataclass
class Step:
    x: Tensor
    y: list[int]
    xb: Tensor
    yb: list[int]
    stored: dict[int, Tensor]  #: class -> images for its prototype
    slice_stream: int
    slice_replay: int
    first_task: bool
    old_classes: list[int]


def aug(x: Tensor) -> Tensor:
    return 0.9 * x.flip(3) + 0.05


def n(v: Tensor) -> Tensor:
    return v / (v.norm(dim=1, keepdim=True) + EPS)


def step_by_hand(net: Any, teacher: Any, c: EMIConfig, s: Step) -> tuple[dict[str, Tensor], Tensor]:
    """The loss terms and their weighted sum."""
    b, r = len(s.x), len(s.xb)
    joint = [rot16(s.x), aug(rot16(s.x))] + ([rot16(s.xb), aug(rot16(s.xb))] if r else [])
    if c.dmi:
        f, slow = net.both(torch.cat(joint))
    else:
        f = net.features(torch.cat(joint))
    p, f = n(net.proj(f)), n(f)
    at = {"stream": (0, 16 * b), "replay": (32 * b, 32 * b + 16 * r)}
    size = {"stream": b, "replay": r}
    labels = {"stream": s.y, "replay": s.yb}
    sides = ["stream", "replay"] if r else ["stream"]
    out: dict[str, Tensor] = {}

    if c.dmi:
        copies = 1 if c.dmi_rows == "identity" else 16
        rows = [i for side in sides for start in at[side] for i in range(start, start + copies * size[side])]
        g = dict(zip(rows, n(net.slow_proj(slow[rows])), strict=True))
        for side in sides:
            z, z_view = ([g[start + i] for i in range(copies * size[side])] for start in at[side])
            pseudo = [16 * k + m for m in range(copies) for k in labels[side]]
            out[f"dmi_{side}"] = _dmi(z, z_view, pseudo, c.alpha if side == "stream" else c.alpha_b, c)

    if c.rmi or c.smi:
        classes = [k for k in sorted({*s.y, *s.yb}) if k in s.stored]
        proto, proto_view = {}, {}
        if classes:
            images = torch.cat([s.stored[k] for k in classes])
            u = n(net.proj(net.features(torch.cat([images, aug(images)]))))
            start = 0
            for k in classes:
                m = len(s.stored[k])
                for table, base in ((proto, 0), (proto_view, len(images))):
                    mean = u[base + start : base + start + m].mean(0)
                    table[k] = mean / mean.norm() if c.proto_renorm else mean
                start += m
        for side in sides:
            here = [k for k in classes if k in labels[side]]
            if c.rmi:
                u, u_view = (p[start : start + size[side]] for start in at[side])
                out[f"rmi_{side}"] = _rmi(here, proto, proto_view, u, u_view, labels[side], c)
            if c.smi:
                out[f"smi_{side}"] = _smi([proto[k] for k in here], [proto_view[k] for k in here], c)

    view = aug if c.ce_view == "aug" else lambda x: x
    logits = net(view(s.xb if r else s.x))
    out["ce"] = F.cross_entropy(logits, torch.tensor(s.yb if r else s.y))
    if c.ocm_logit_mse and r and not s.first_task:
        past = teacher(view(s.xb)).detach()
        out["mse"] = torch.stack([(logits[:, k] - past[:, k]) ** 2 for k in s.old_classes]).mean()

    coefficient = 1.0 if s.first_task else c.coefficient
    for side, start in zip(sides, (s.slice_stream, s.slice_replay), strict=False):
        rows = slice(at[side][0], at[side][0] + 32 * size[side])
        d = p.shape[1]
        similarity = coefficient * (p[rows] @ f[rows, start : start + d].T + p[rows] @ p[rows].T)
        pseudo = [k + 1000 * m for m in range(16) for k in labels[side]]
        out["ntx_n" if side == "stream" else "ntx_uni"] = _ntx(similarity, pseudo * 2, c.tau, side == "stream")
    if r and not s.first_task:
        q = n(teacher.proj(teacher.features(rot16(s.xb)))).detach()
        pseudo = [k + 1000 * m for m in range(16) for k in s.yb]
        out["ntx_pre"] = _ntx(p[32 * b : 32 * b + 16 * r] @ q.T, pseudo, c.tau, False)

    w = c.loss_weights
    total = torch.zeros((), dtype=torch.float64)
    for name, weight in (("dmi", w.dmi), ("rmi", w.rmi), ("smi", w.smi), ("ce", w.ce), ("ntx", w.ocm), ("mse", w.ocm)):
        total = total + weight * sum(v for k, v in out.items() if k.startswith(name))
    return out, total


def _dmi(z: list[Tensor], z_view: list[Tensor], y: list[int], alpha: float, c: EMIConfig) -> Tensor:
    count = len(z)
    if len(set(y)) == count:
        return torch.zeros((), dtype=torch.float64)

    def scale(cos: Tensor) -> float:
        return math.exp(cos.item() / c.tau) if c.dmi_threshold == "exp" else cos.item()

    plain, view = torch.stack(z), torch.stack(z_view)
    cos = (plain @ plain.T).detach()
    three = [torch.exp(m / c.tau) for m in (plain @ plain.T, plain @ view.T, view @ plain.T)]

    def threshold(anchor: int) -> float:
        everyone = range(count)
        if c.dmi_pairs == "per_class":
            everyone = [i for i in range(count) if y[i] == y[anchor]]
        own = c.dmi_pairs == "with_self"
        intra = [scale(cos[i, j]) for i in everyone for j in everyone if y[i] == y[j] and (own or i != j)]
        return max(intra) - alpha * (max(intra) - sum(intra) / len(intra)) if intra else math.inf

    shared = None if c.dmi_pairs == "per_class" else threshold(0)
    terms = []
    for i in range(count):
        mu = threshold(i) if shared is None else shared
        members = [j for j in range(count) if j != i and (y[j] == y[i] or scale(cos[i, j]) > mu)]
        if not members:
            continue
        others = [j for j in range(count) if j != i or c.dmi_denominator == "all"]
        below = sum(e[i, others].sum() for e in three) ** 3
        ratios = math.prod(e[i, members] for e in three) / below
        log_a = ratios.sum().log() if c.mi_reduction == "log_sum" else ratios.log().sum()
        terms.append(log_a / len(members))
    return -sum(terms) / (count if c.empty_anchor == "zero" else len(terms))


def _rmi(here: list[int], proto: Any, proto_view: Any, u: Tensor, u_view: Tensor, y: list[int], c: EMIConfig) -> Tensor:
    terms = []
    for k in here:
        a, a_view = (t[k].detach() if c.rmi_detach_proto else t[k] for t in (proto, proto_view))
        three = [[torch.exp(v / c.tau) for v in (a @ u[j], a @ u_view[j], a_view @ u[j])] for j in range(len(y))]
        below = sum(sum(t) for t in three) ** 3
        mine = [math.prod(t) / below for t, label in zip(three, y, strict=True) if label == k]
        log_b = sum(mine).log() if c.mi_reduction == "log_sum" else sum(q.log() for q in mine)
        terms.append(log_b / len(mine))
    return -sum(terms) / len(terms) if terms else torch.zeros((), dtype=torch.float64)


def _smi(p: list[Tensor], p_view: list[Tensor], c: EMIConfig) -> Tensor:
    k = len(p)
    terms = []
    if c.smi_form == "infonce":
        for i in range(k):
            all_j = [torch.exp(p[i] @ p_view[j] / c.smi_tau) for j in range(k)]
            terms.append(torch.log(all_j[i] / (sum(all_j) / k)))
    else:
        v = p + p_view
        for i in range(2 * k):
            others = sum(torch.exp(v[i] @ v[j] / c.smi_tau) for j in range(2 * k) if j != i)
            terms.append(torch.log(torch.exp(v[i] @ v[(i + k) % (2 * k)] / c.smi_tau) / others))
    return -sum(terms) / len(terms) if terms else torch.zeros((), dtype=torch.float64)


def _ntx(s: Tensor, labels: list[int], tau: float, stream: bool) -> Tensor:
    rows = len(s)
    e = torch.exp((s - s.max(1, keepdim=True).values.detach()) / tau)
    if stream:
        e = e * (1 - torch.eye(rows))
    lmat = -torch.log(e / (e.sum(1, keepdim=True) + EPS) + EPS)
    same = (torch.tensor(labels)[:, None] == torch.tensor(labels)).double()
    loss = (same / (same.sum(1, keepdim=True) + EPS) * lmat).sum() / rows
    if stream:
        half = rows // 2
        loss = 2 * loss + sum(lmat[i, i + half] + lmat[i + half, i] for i in range(half)) / rows
    return loss
