"""PCR's loss: the supervised contrastive loss with every contrast sample replaced by its class's proxy."""

from __future__ import annotations

from torch import Tensor

from emi_bench.losses.precision import full_precision


@full_precision
def proxy_contrastive(scores: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy among the classes of the batch, each weighted by how often it occurs (Lin et al., CVPR 2023).

    scores (N,C): cosine similarities to the C proxies over the temperature; labels (N,) on the same device.
    With n_c the number of rows that carry label c:
        L = (1/N) sum_i [ -s_{i,y_i} + ln sum_{c: n_c > 0} n_c exp(s_ic) ]
    This is the paper's softmax over the N proxies of the batch's rows, in which a proxy stands once for each row of its
    class. A class without rows has an offset of -inf: no part in the sum, and a gradient of exactly zero.

    >>> import torch
    >>> proxy_contrastive(torch.eye(2), torch.tensor([0, 1]))  # ln(e + 1) - 1
    tensor(0.3133)
    """
    counts = scores.new_zeros(scores.shape[1]).scatter_add_(0, labels, scores.new_ones(len(labels)))
    own = scores.gather(1, labels[:, None]).squeeze(1)
    return ((scores + counts.log()).logsumexp(1) - own).mean()
