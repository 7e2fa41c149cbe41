"""OCM: mutual information between inputs, features and the past model (Guo et al., ICML 2022)."""

from __future__ import annotations

from torch import Tensor

from emi_bench.methods.base import Losses
from emi_bench.methods.past_model import PastModel


class OCM(PastModel):
    """Supervised InfoNCE on 16 rotations of every image, stream and replay apart, and against the past model.

    The first task has no replay: its classifier learns from the stream. Later the classifier learns from memory alone.
    Draws: "replay", "slice_stream", "slice_replay", "reservoir", and those of the view.
    """

    name = "ocm"
    title = "OCM"

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        batch = self.gather(x, y, replay=self.tasks_done > 0)
        joint = self.joint_forward(batch)
        losses = self.classify(batch)
        losses |= self.instance_terms(joint)
        losses |= self.past_term(joint)
        return self.learn(losses, x, y)
