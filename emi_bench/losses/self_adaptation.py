"""GSA's balanced cross-entropy: classes weighted by how they have been pulled up and pushed down (Guo et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from emi_bench.losses.precision import full_precision


class GradientBalance(nn.Module):
    """Per class c, over the whole run: cnt_c rows of it, pos_c their probability of c, neg_c that of all other rows.

    A cross-entropy pulls the logit of c up by 1 - p at rows of c and pushes it down by p at others, so
    (cnt - pos) / neg is the ratio of the two. A class that is pushed down more than up gets a weight below one.
    """

    cnt: Tensor
    pos: Tensor
    neg: Tensor

    def __init__(self, n_classes: int) -> None:
        super().__init__()
        for name in ("cnt", "pos", "neg"):
            self.register_buffer(name, torch.zeros(n_classes, dtype=torch.float64))

    @torch.no_grad()
    def weights(self, p: Tensor, place: Tensor, columns: Tensor, *, warm: bool) -> Tensor:
        """Take a batch in and give w_c = 2 / (1 + exp(1 - ratio_c)) of each column, in (0.54, 2); 1 without `warm`.

        p (n,K) probabilities over some classes' columns (K,), place (n,) the column of each label.
        """
        p = p.double()
        own = torch.nn.functional.one_hot(place, len(columns)).to(p.dtype)
        self.cnt.index_add_(0, columns, own.sum(0))
        self.pos.index_add_(0, columns, (own * p).sum(0))
        self.neg.index_add_(0, columns, ((1 - own) * p).sum(0))
        if not warm:
            return torch.ones_like(columns, dtype=p.dtype)
        ratio = (self.cnt - self.pos)[columns] / self.neg[columns]
        ratio = torch.where(self.neg[columns] > 0, ratio, torch.inf)  # never pushed down: the largest weight
        return 2 / (1 + torch.exp(1 - ratio))

    def forward(self, logits: Tensor, place: Tensor, columns: Tensor, *, warm: bool) -> Tensor:
        """-(1/n) sum_i w_{y_i} ln p_{i,y_i} of logits (n,K); the weights carry no gradient.

        >>> balance = GradientBalance(2)
        >>> balance(torch.zeros(3, 2, dtype=torch.float64), torch.tensor([0, 0, 1]), torch.arange(2), warm=True)
        tensor(0.8501, dtype=torch.float64)
        """
        return _weighted(self, logits, place, columns, warm)


@full_precision
def _weighted(balance: GradientBalance, logits: Tensor, place: Tensor, columns: Tensor, warm: bool) -> Tensor:
    log_p = torch.log_softmax(logits, 1)
    weights = balance.weights(log_p.exp(), place, columns, warm=warm).to(log_p.dtype)
    return -(weights[place] * log_p.gather(1, place[:, None]).squeeze(1)).mean()
