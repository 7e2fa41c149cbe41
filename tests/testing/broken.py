"""Plugins that are broken in one way each, and what a user is told. `# HERE` marks the line to be named."""

from __future__ import annotations

from typing import NamedTuple

HEAD = """import time

import torch
import torch.nn.functional as F

from emi_bench.methods import Method


class Mine(Method):
    name = "mine"
    title = "Mine"

    @classmethod
    def make_net(cls, config, problem):  # a small one: all of this is about steps
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * problem.image_size**2, problem.n_classes))
"""
BODY = """
    def observe(self, x, y):
        images, labels = self.prepare(x, y)
        loss = F.cross_entropy(self.net(images), labels)
        replay_images, replay_labels = self.replay()
        if len(replay_images):
            loss = loss + F.cross_entropy(self.net(replay_images), replay_labels)
        self.descend(loss)
        self.memory.update(x, y, self.draws)
        return {"ce": loss.detach()}
"""
STEP = "        images, labels = self.prepare(x, y)\n"
SETUP = """
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
"""
PREDICT = """
    def predict(self, x):
        with self.evaluating(), torch.no_grad():
            logits = self.net(self.pixels(x))
"""


class Broken(NamedTuple):
    check: str  #: that finds it
    says: str
    source: str

    @property
    def line(self) -> int:
        return next(n for n, line in enumerate(self.source.splitlines(), 1) if "# HERE" in line)


def here(source: str, words: str = "(self, x, y):") -> str:
    """The source with a mark at the first line that has these words."""
    return source.replace(words, f"{words}  # HERE", 1)


def trained(new: str) -> str:
    """The sound method with another optimiser step."""
    return HEAD + BODY.replace("        self.descend(loss)\n", new)


def predicting(result: str) -> str:
    """The sound method with predictions of its own."""
    return HEAD + BODY + here(PREDICT, "(self, x):") + f"            return {result}\n"


def step(more: str) -> str:
    """The sound method with lines in front of its step."""
    return HEAD + BODY.replace(STEP, more + STEP)


BROKEN = {
    "syntax error": Broken("imports", "SyntaxError", HEAD + BODY.replace("(self, x, y):", "(self, x, y)  # HERE")),
    "wrong signature": Broken(
        "signatures", "observe(self, x) cannot be called", HEAD + BODY.replace("(self, x, y):", "(self, x):  # HERE")
    ),
    "exception in the third task": Broken(
        "steps",
        "in task 3, a batch of 5: ZeroDivisionError",
        step("        if self.tasks_done == 2:\n            1 / 0  # HERE\n"),
    ),
    "infinite loss": Broken(
        "finite", "the loss term 'ce' is inf", here(HEAD + BODY.replace("loss.detach()", "loss.detach() / 0"))
    ),
    "writes to its input": Broken("input", "changes the batch", step("        x.clamp_(max=250)  # HERE\n")),
    "keeps every sample": Broken(
        "kept samples",
        "are kept in self.every, outside the memory",
        step("        self.every.append(x)\n").replace(HEAD, HEAD + SETUP + "        self.every = []  # HERE\n"),
    ),
    "returns strings": Broken("losses", "{'ce': str 'low'}", here(HEAD + BODY.replace("loss.detach()", '"low"'))),
    "forgets its state": Broken(
        "resumes",
        "self.scale is not in it",
        trained("        self.scale *= 0.9\n        self.descend(self.scale * loss)\n").replace(
            HEAD, HEAD + SETUP + "        self.scale = 1.0  # HERE\n"
        ),
    ),
    "wrong dtype": Broken("predictions", "predict returns torch.float32", predicting("logits.argmax(1).float()")),
    "wrong shape of predictions": Broken(
        "predictions", "a tensor of shape (36, 6) for 36 images", predicting("logits")
    ),
    "prints in a loop": Broken(
        "quiet", "'a loss' first", step('        for _ in y:\n            print("a loss")  # HERE\n')
    ),
    "never returns": Broken("steps", "no end", step("        while True:\n            time.sleep(0.01)  # HERE\n")),
    # Beyond the twelve: the other promises.
    "keeps samples in a global": Broken(
        "kept samples",
        "are kept in EVERY, outside the memory",
        step("        EVERY.append(x)\n").replace("\n\nclass", "\nEVERY = []  # HERE\n\n\nclass"),
    ),
    "keeps samples in a global's attribute": Broken(
        "kept samples",
        "are kept in KEPT.rows, outside the memory",
        step("        KEPT.rows.append(x.permute(0, 2, 3, 1))\n").replace(
            "\n\nclass",
            "\n\nclass Kept:\n    __slots__ = ('rows',)\n\n\nKEPT = Kept()  # HERE\nKEPT.rows = []\n\n\nclass",
        ),
    ),
    "keeps samples in a default": Broken(
        "kept samples",
        "are kept in Mine.observe<kept>, outside the memory",
        step("        kept.append(x.float())\n").replace("(self, x, y):", "(self, x, y, kept=[]):  # HERE"),
    ),
    "keeps samples in its class": Broken(
        "kept samples",
        "are kept in Mine.every, outside the memory",
        step("        self.every.append(x)\n").replace(HEAD, HEAD + "    every = []  # HERE\n"),
    ),
    "keeps samples in another class": Broken(
        "kept samples",
        "are kept in Kept.rows, outside the memory",
        step("        Kept.rows.append(x)\n").replace("\n\nclass", "\n\nclass Kept:\n    rows = []  # HERE\n\n\nclass"),
    ),
    "a loss that is not a number": Broken(
        "finite",
        "the loss term 'ce' is nan",
        here(HEAD + BODY.replace("loss.detach()", "loss.detach() * float('nan')")),
    ),
    "learns nothing": Broken("learns", "it learns nothing", here(trained("        self.descend(loss * 0)\n"))),
    "exceeds its memory": Broken(
        "memory",
        "the memory has 22 slots, and 12 are allowed",
        HEAD
        + BODY
        + "\n    @classmethod\n    def make_memory(cls, config, problem):  # HERE\n"
        + "        from emi_bench.memory import Memory\n\n"
        + "        return Memory(problem.memory + 10, problem.image_shape)\n",
    ),
    "not repeatable": Broken(
        "repeats",
        "not of torch.randn_like()",
        step("        noise = 0.01 * torch.randn_like(x.float())  # HERE\n").replace(
            "net(images)", "net(images + noise)", 1
        ),
    ),
    "impossible classes": Broken("predictions", "there are 0 to 5", predicting("logits.argmax(1) + 90")),
    "waits for the device": Broken(
        "waiting", ".item()", trained("        assert loss.item() > 0  # HERE\n        self.descend(loss)\n")
    ),
    "breaks on the last short batch": Broken(
        "short batch", "a batch of 1: AssertionError", step("        assert len(x) > 1  # HERE\n")
    ),
    "breaks in bf16": Broken(
        "bf16",
        "it breaks in bf16: RuntimeError: index_add_",
        trained(
            "        rows, logits = torch.arange(len(x)), self.net(images)\n"
            "        torch.zeros(len(x), logits.shape[1]).index_add_(0, rows, logits)  # HERE\n"
            "        self.descend(loss)\n"
        ),
    ),
    "breaks on one class a task": Broken(
        "one class", "with tasks of one class", step("        assert y.unique().numel() > 1 or len(x) == 1  # HERE\n")
    ),
}
