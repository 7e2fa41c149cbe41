"""SSD's matching loss: summarised images should move a helper network as the real ones of their class do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emi_bench.losses.precision import full_precision

Match: TypeAlias = Literal["grad", "feat", "grad_feat"]
Distance: TypeAlias = Literal["mse", "l1", "l1_mean", "cos"]


class Helper(Protocol):
    """What the matching loss asks of a network."""

    def features(self, x: Tensor) -> Tensor:
        """(n,3,H,W) -> (n,d)"""

    def logits(self, features: Tensor) -> Tensor:
        """(n,d) -> (n,K)"""


# --- distances ---------------------------------------------------------------------------------------------------


def squared_error(x: Tensor, y: Tensor) -> Tensor:
    """sum (x - y)^2

    >>> squared_error(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[0.0, 4.0], [0.0, 0.0]]))
    tensor(41.)
    """
    return (x - y).square().sum()


def absolute_error(x: Tensor, y: Tensor) -> Tensor:
    """sum |x - y|"""
    return (x - y).abs().sum()


def mean_absolute_error(x: Tensor, y: Tensor) -> Tensor:
    """sum over rows of the mean of |x_i - y_i|; a kernel's rows are its output channels."""
    return absolute_error(x, y) * len(x) / x.numel()


def cosine_error(x: Tensor, y: Tensor) -> Tensor:
    """sum over rows of 1 - x_i . y_i / (|x_i| |y_i| + 1e-6); a row of zeros counts 1.

    >>> cosine_error(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[4.0, 3.0], [1.0, 1.0]]))
    tensor(1.0400)
    """
    x, y = x.flatten(1), y.flatten(1)
    lengths = torch.linalg.vector_norm(x, dim=1) * torch.linalg.vector_norm(y, dim=1)
    apart: Tensor = 1 - (x * y).sum(1) / (lengths + 1e-6)
    return apart.sum()


DISTANCES: dict[Distance, Callable[[Tensor, Tensor], Tensor]] = {
    "mse": squared_error,
    "l1": absolute_error,
    "l1_mean": mean_absolute_error,
    "cos": cosine_error,
}


@full_precision
def euclidean(x: Tensor, y: Tensor) -> Tensor:
    """d_ij = sqrt(max(|x_i - y_j|^2, 1e-12)), (n,d) and (m,d) -> (n,m); equal rows are 1e-6 apart, without gradient.

    >>> euclidean(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[0.0, 4.0], [0.0, 0.0]]))
    tensor([[5.0000e+00, 3.0000e+00],
            [1.0000e-06, 4.0000e+00]])
    """
    return (x[:, None] - y[None]).square().sum(2).clamp_min(1e-12).sqrt()


# --- terms -------------------------------------------------------------------------------------------------------


@full_precision
def relation(syn: Tensor, real: Tensor, past: Tensor) -> Tensor:
    """Rel = sum_k | d(mean u^s, w_k) - d(mean u^r, w_k) |: both sets keep the same distances to old summaries.

    syn (n,d), real (m,d), past (k,d), all of unit rows; the means are **not** normalised again.

    >>> u, w = torch.eye(2), torch.tensor([[1.0, 0.0]])
    >>> relation(u[1:], u[:1], w)  # sqrt(2) against 1e-6
    tensor(1.4142)
    """
    return (euclidean(syn.mean(0, keepdim=True), past) - euclidean(real.mean(0, keepdim=True), past)).abs().sum()


@full_precision
def gradient_match(syn: Sequence[Tensor], real: Sequence[Tensor], metric: Distance = "mse") -> Tensor:
    """G = sum_l distance(g_l^s, g_l^r) over the convolution kernels l."""
    return torch.stack([DISTANCES[metric](s, r) for s, r in zip(syn, real, strict=True)]).sum()


def conv_gradients(helper: nn.Module, features: Tensor, label: int, *, create_graph: bool) -> tuple[Tensor, ...]:
    """Gradient of the mean cross-entropy towards `label` with respect to the helper's 4-D parameters.

    Biases, norms and the classifier do not count. With `create_graph` the result can be differentiated again.
    """
    kernels = [p for p in helper.parameters() if p.dim() == 4]
    logits = cast(Helper, helper).logits(features)
    labels = torch.full((len(features),), label, device=features.device)
    return torch.autograd.grad(F.cross_entropy(logits, labels), kernels, create_graph=create_graph)


@full_precision
def matching_loss(
    syn: Tensor,
    real: Tensor,
    past: Tensor | None,
    label: int,
    helper: nn.Module,
    *,
    match: Match = "grad",
    mem_weight: float = 1.0,
    mem_extra: bool = True,
    metric: Distance = "mse",
) -> Tensor:
    """L_match of one class: how far summarised images `syn` (n,3,H,W) are from `real` ones (m,3,H,W) for the helper.

    `grad`: G. `feat`: the distance of mean f^r from mean f^s, unit features if there are past summaries. `grad_feat`:
    half the sum of both. The distance is `metric`'s, a mean feature being one row. With `past` summaries (k,3,H,W) of
    earlier tasks, + mem_weight Rel; without `mem_extra` the mix (1 - mem_weight) and mem_weight instead. Gradients
    reach `syn` alone, those of G through the helper's backward.
    """
    net = cast(Helper, helper)
    f_real, f_syn = net.features(real.detach()), net.features(syn)
    terms = []
    if match != "feat":
        g_real = conv_gradients(helper, f_real, label, create_graph=False)
        terms.append(gradient_match(conv_gradients(helper, f_syn, label, create_graph=True), g_real, metric))
    f_real = f_real.detach()
    if past is not None:
        f_real, f_syn = F.normalize(f_real, dim=1), F.normalize(f_syn, dim=1)
    if match != "grad":
        terms.append(DISTANCES[metric](f_real.mean(0, keepdim=True), f_syn.mean(0, keepdim=True)))
    loss = terms[0] if len(terms) == 1 else (terms[0] + terms[1]) / 2
    if past is None:
        return loss
    with torch.no_grad():
        f_past = F.normalize(net.features(past), dim=1)
    rel = relation(f_syn, f_real, f_past)
    return (loss if mem_extra else (1 - mem_weight) * loss) + mem_weight * rel
