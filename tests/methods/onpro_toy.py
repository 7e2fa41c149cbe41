"""OnPro in the toy world: its draws from the plan's raw material, and the step written out a second time.

`Literal` shares no code with the method but the rotations (which have their own recorded values): loops over rows,
classes and pairs in the order of the description, the four blocks of the joint batch one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.data.views import rot16
from emi_bench.draws import Draws
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.methods.toy_steps import plain_net

P, BASE_RATE, COEFFICIENT, C = 0.6, 0.75, 0.5, 4
NO_DRAWS = Draws(0)


class PlanDraws(ScriptedDraws):
    """Answers from `plan[step]`: given values as they are, raw integers modulo the number of candidates, in order.

    All gates are open: the plan's lambdas are final, 0 where nothing is mixed. What was answered is recorded.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.record: dict[str, list[Any]] = {}

    def begin(self, plan: dict[str, Any], *, feedback: bool) -> None:
        apf = plan["apf"]
        self.raw = {"apf_adjust": list(apf["adjust"]), "apf_pick": list(apf["pick"])}
        self.pair_lam = list(apf["pair_lam"])
        self.then({"slice_stream": [plan["slice_stream"]]})
        if plan["reservoir_slots"]:
            self.then({"reservoir": [plan["reservoir_slots"]]})
        if plan["task"]:
            self.then({"replay": [plan["replay_slots"]], "slice_replay": [plan["slice_replay"]]})
        elif plan["filled_before"]:
            self.then({"onpro_proto_slots": [plan["onpro_proto_slots"]]})
        if feedback:
            self.then({"apf_base": [apf["base"]], "apf_perm": [apf["perm"]], "apf_lam": [apf["lam"]]})
            self.then({"apf_active": [True], "apf_mixed": [True]})

    def _answer(self, what: str, method: str, *args: Any, **kwargs: Any) -> Any:
        if what in self.raw:
            candidates, k = args
            slots = range(candidates) if isinstance(candidates, int) else candidates
            value = [slots[self.raw[what].pop(0) % len(slots)] for _ in range(k)]
        elif what == "apf_pair_lam":
            value = [self.pair_lam.pop(0) for _ in range(args[-1])]
        elif what == "apf_pair_active":
            value = True
        else:
            value = super()._answer(what, method, *args, **kwargs)
        self.record.setdefault(what, []).append(value)
        return value


def unit(v: Tensor) -> Tensor:
    return v / (v.norm(dim=-1, keepdim=True) + 1e-8)


def ntx(s: Tensor, labels: list[float], *, stream: bool) -> Tensor:
    n, eps = len(s), 1e-8
    e = torch.exp((s - s.max(1, keepdim=True).values.detach()) / 0.07)
    if stream:
        e = e * (1 - torch.eye(n))
    entries = -torch.log(e / (e.sum(1, keepdim=True) + eps) + eps)
    same = torch.tensor([[float(a == b) for b in labels] for a in labels], dtype=s.dtype)
    supervised = (same / (same.sum(1, keepdim=True) + eps) * entries).sum()
    if not stream:
        return supervised / n
    own = sum(entries[i, i + n // 2] + entries[i + n // 2, i] for i in range(n // 2))
    return 2 / n * supervised + own / n


def ope(z1: Tensor, z2: Tensor, y: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
    """The loss, and the average of both views' class means by class."""
    rows = {c: [i for i, label in enumerate(y) if label == c] for c in sorted(set(y))}
    m1, m2 = ([z[at].mean(0) for at in rows.values()] for z in (z1, z2))
    vectors = [v / v.norm() for v in m1 + m2]
    k, loss = len(rows), z1.new_zeros(())
    for i, v in enumerate(vectors):
        others = [j for j in range(2 * k) if j != i]
        logits = torch.stack([v @ vectors[j] / 0.5 for j in others])
        loss = loss - torch.log_softmax(logits, 0)[others.index((i + k) % (2 * k))] / (2 * k)
    return loss, {c: ((a + b) / 2).detach() for c, a, b in zip(rows, m1, m2, strict=True)}


class Literal:
    """Trains its own network with its own optimiser; `step` returns the loss terms."""

    def __init__(self) -> None:
        self.net = plain_net()
        self.adam = torch.optim.Adam(self.net.parameters(), lr=5e-4, betas=(0.9, 0.99), weight_decay=1e-4)
        self.classes_mean: dict[int, Tensor] = {}

    def step(self, plan: dict[str, Any]) -> dict[str, float]:
        later, first_batch = plan["task"] > 0, plan["batch_in_task"] == 0
        stored, stored_y = plan["memory_ids_before"], plan["memory_labels_before"]
        x, y = toy.images(plan["ids"]), plan["labels"]
        b, c = len(y), COEFFICIENT if later else 1.0
        losses: dict[str, Tensor] = {}

        blocks, slots = [rot16(x), toy.view(rot16(x), NO_DRAWS)], []
        if later:
            slots = plan["replay_slots"]
            xo, yo = toy.images([stored[s] for s in slots]), [stored_y[s] for s in slots]
            xb, la, lb, lam = (xo, yo, yo, [0.0] * len(yo)) if first_batch else self.apf(plan, xo, yo)
            y_float = [p if p == q else (1 - v) * p + v * q for p, q, v in zip(la, lb, lam, strict=True)]
            blocks += [rot16(xb), toy.view(rot16(xb), NO_DRAWS)]
        f = self.net.features(torch.cat(blocks))
        p, f = unit(self.net.proj(f)), unit(f)

        def similarities(rows: slice, start: int) -> Tensor:
            return c * (p[rows] @ f[rows, start : start + 12].T + p[rows] @ p[rows].T)

        labels = [label + m * C for m in range(16) for label in y] * 2
        losses["ntx_n"] = ntx(similarities(slice(32 * b), plan["slice_stream"]), labels, stream=True)
        losses["ope_new"], _ = ope(p[:b], p[16 * b : 17 * b], y)
        if later:
            labels = [label + m * C for m in range(16) for label in y_float] * 2
            losses["ntx_uni"] = ntx(similarities(slice(32 * b, None), plan["slice_replay"]), labels, stream=False)
            logits = self.net(toy.view(xb, NO_DRAWS))
            each = [F.cross_entropy(logits, torch.tensor(target), reduction="none") for target in (la, lb)]
            share = torch.tensor(lam, dtype=torch.float64)
            losses["ce"] = ((1 - share) * each[0] + share * each[1]).mean()
            losses["ope_seen"] = self.seen(xo, yo)
        else:
            if not first_batch:
                slots = plan["onpro_proto_slots"]
                losses["ope_seen"] = self.seen(toy.images([stored[s] for s in slots]), [stored_y[s] for s in slots])
            losses["ce"] = F.cross_entropy(self.net(toy.view(x, NO_DRAWS)), torch.tensor(y))

        self.adam.zero_grad()
        sum(losses.values()).backward()
        self.adam.step()
        return {name: value.item() for name, value in losses.items()}

    def seen(self, x: Tensor, y: list[int]) -> Tensor:
        z = unit(self.net.proj(self.net.features(torch.cat([x, toy.view(x, NO_DRAWS)]))))
        loss, self.classes_mean = ope(z[: len(x)], z[len(x) :], y)
        return loss

    def apf(self, plan: dict[str, Any], xo: Tensor, yo: list[int]) -> tuple[Tensor, list[int], list[int], list[float]]:
        raw, n = plan["apf"], 6
        n1 = int(n * BASE_RATE)
        images, la, lb, lam = [], [], [], list(raw["lam"])
        for i in range(n1):
            first, second, share = raw["base"][i], raw["base"][raw["perm"][i]], raw["lam"][i]
            images.append((1 - share) * xo[first] + share * xo[second])
            la.append(yo[first])
            lb.append(yo[second])

        pairs = list(combinations(self.classes_mean, 2))
        closeness = [1 / np.linalg.norm(self.classes_mean[i] - self.classes_mean[j]) for i, j in pairs]
        prob = np.exp(closeness) / np.exp(closeness).sum()
        counts, adjust = np.rint(prob * (n - n1)).astype(int), list(raw["adjust"])
        while counts.sum() != n - n1:
            more = counts.sum() < n - n1
            eligible = np.arange(len(pairs)) if more else np.flatnonzero(counts)
            counts[eligible[adjust.pop(0) % len(eligible)]] += 1 if more else -1

        pick, pair_lam = list(raw["pick"]), list(raw["pair_lam"])
        by_class = {c: [s for s, label in enumerate(plan["memory_labels_before"]) if label == c] for c in range(C)}
        for pair, k in zip(pairs, counts, strict=True):
            chosen = [[by_class[c][pick.pop(0) % len(by_class[c])] for _ in range(k)] for c in pair]
            for s1, s2 in zip(*chosen, strict=True):
                x1, x2 = toy.images([plan["memory_ids_before"][s] for s in (s1, s2)])
                lam.append(pair_lam.pop(0))
                images.append((1 - lam[-1]) * x1 + lam[-1] * x2)
                la.append(pair[0])
                lb.append(pair[1])
        return torch.stack(images), la, lb, lam


def batch_norm_steps(net: nn.Module) -> int:
    """How many forwards have moved the running statistics."""
    return int(net.state_dict()["slow.bn1.num_batches_tracked"])
