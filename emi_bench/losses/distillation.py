"""Distillation of one network's prediction into another's (Hinton et al. 2015), as MKD and CCL-DC write it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def distillation(student: Tensor, teacher: Tensor, tau: float) -> Tensor:
    """tau^2 mean_i KL(softmax(teacher_i / tau) || softmax(student_i / tau)) of logits (n,C); the teacher is detached.

    >>> import torch
    >>> teacher = torch.tensor([[4.0, 0.0]]) * torch.tensor(3.0).log()
    >>> distillation(torch.zeros(1, 2), teacher, 4.0)
    tensor(2.0930)
    """
    log_p = F.log_softmax(student / tau, dim=1)
    log_q = F.log_softmax(teacher.detach() / tau, dim=1)
    return tau**2 * F.kl_div(log_p, log_q, reduction="batchmean", log_target=True)
