"""OCM: mutual information between inputs, features and the past model (Guo et al., ICML 2022)."""

from __future__ import annotations

from torch import Tensor

from emi_bench.methods.base import Losses, MethodConfig
from emi_bench.methods.past_model import PastModel
from emi_bench.problem import Problem


class OCM(PastModel):
    """Supervised InfoNCE on 16 rotations of every image, stream and replay apart, and against the past model.

    The first task has no replay: its classifier learns from the stream. Later the classifier learns from memory alone.
    Draws: "replay", "slice_stream", "slice_replay", "reservoir", and those of the view.
    """

    name = "ocm"
    title = "OCM"
    cite = "guo2022ocm"
    place = 12
    colour = "#e69f00"
    marker = "p"
    uses_task_ends = True

    @classmethod
    def forwards(cls, config: MethodConfig, problem: Problem) -> float:
        b, r = problem.batch, problem.replay_batch
        return 3.0 * (32 * (b + r) + r) + 17.0 * r

    def observe(self, x: Tensor, y: Tensor) -> Losses:
        batch = self.gather(x, y, replay=self.tasks_done > 0)
        joint = self.joint_forward(batch)
        losses = self.classify(batch)
        losses |= self.instance_terms(joint)
        losses |= self.past_term(joint)
        return self.learn(losses, x, y)
