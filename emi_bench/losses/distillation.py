"""Distillation of predictions (Hinton et al. 2015) as MKD and CCL-DC write it, and of features, MOSE's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def distillation(student: Tensor, teacher: Tensor, tau: float) -> Tensor:
    """tau^2 mean_i KL(softmax(teacher_i / tau) || softmax(student_i / tau)) of logits (n,C); the teacher is detached.

    >>> teacher = torch.tensor([[4.0, 0.0]]) * torch.tensor(3.0).log()
    >>> distillation(torch.zeros(1, 2), teacher, 4.0)
    tensor(2.0930)
    """
    log_p = F.log_softmax(student / tau, dim=1)
    log_q = F.log_softmax(teacher.detach() / tau, dim=1)
    return tau**2 * F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)


@full_precision
def reverse_distillation(deep: Tensor, shallow: Tensor) -> Tensor:
    """sum_i || normalise(deep) - normalise(shallow_i) ||_F of features (n,D) and (E,n,D), the shallow ones detached.

    The deep expert learns from the others (Yan et al., CVPR 2024). The Frobenius norm of the whole batch, not a mean:
    it grows with the square root of the rows.

    >>> deep, shallow = torch.tensor([[1.0, 0.0]] * 2), torch.tensor([[[0.0, 1.0]] * 2])
    >>> reverse_distillation(deep, shallow)
    tensor(2.)
    """
    apart = F.normalize(deep, dim=1) - F.normalize(shallow.detach(), dim=2)
    norms: Tensor = torch.linalg.vector_norm(apart, dim=(1, 2))
    return norms.sum()
