"""A-GEM: do not let the memory loss rise (Chaudhry et al., Efficient Lifelong Learning with A-GEM, ICLR 2019)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from emi_bench.losses.gradient_geometry import project_conflict
from emi_bench.methods.base import Losses
from emi_bench.methods.er import ER, ReplayConfig
from emi_bench.nets.gradients import flat_gradient, set_flat_gradient


class AGEM(ER):
    """The stream's gradient, projected onto the half space in which a random replay batch does not get worse.

    The memory constrains and adds no loss. It is filled by the reservoir from the first batch on, the current task
    included; retrieval begins with the second task, so that the first is fine-tuning.

    Draws: `replay` (slots; not asked in the first task), `reservoir`.
    """

    name = "agem"
    title = "AGEM"
    cite = "chaudhry2018agem"
    place = 2
    colour = "#b0a98f"
    marker = "v"
    uses_task_ends = True
    config_class = ReplayConfig

    def step(self, images: Tensor, labels: Tensor) -> Losses:
        ce_stream = F.cross_entropy(self.net(images), labels)
        losses = {"ce_stream": ce_stream.detach()}
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(ce_stream)

        replay_images, replay_labels = self.replay() if self.tasks_done else (images[:0], labels[:0])
        if len(replay_images):
            parameters = list(self.net.parameters())
            g = flat_gradient(parameters)
            self.optimizer.zero_grad(set_to_none=True)
            ce_replay = F.cross_entropy(self.net(replay_images), replay_labels)
            torch.autograd.backward(ce_replay)
            losses["ce_replay"] = ce_replay.detach()
            set_flat_gradient(parameters, project_conflict(g, flat_gradient(parameters)))

        self.optimizer.step()
        return losses
