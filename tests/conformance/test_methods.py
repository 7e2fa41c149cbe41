"""What every method promises, whoever wrote it: the battery of `emi-bench check`, over all of them unasked."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from emi_bench.methods import method_names
from emi_bench.run.spec import RunSpec
from emi_bench.testing import CHECKS, Check, NotRun, Subject, register_check_data
from emi_bench.testing.data import LEARN

#: Overrides that fit a method to streams of seconds and do not change what it does.
QUICK: dict[str, dict[str, Any]] = {"offline": {"epochs": 2, "batch": 16}, "gdumb": {"epochs": 2}}
#: For the steps in which a method must learn alone. MKD predicts by the mean of its student's and its teacher's
#: weights, and with alpha = 0.01 the teacher has but 63 % of them by then: not yet a network (docs/methods/mkd.md).
SOONER: dict[str, dict[str, Any]] = {"mkd": {"alphas": [0.1]}, "offline": {"epochs": 4}, "gdumb": {"epochs": 8}}
#: The longest of all by far, which need more steps to learn.
LONG = ("ocm", "onpro", "emi", "ccl_dc")
#: Asked whether they learn: one of each kind. `make test-all` asks the others too, and the demo shows what they learn.
LEARNERS = ("finetune", "er", "gdumb", "scr", "derpp", "ssd")
#: Their own tests compare a step in bfloat16 with one in float32.
BF16 = ("ocm", "onpro", "emi")
#: Wrappers, as their configuration asks for them.
WRAPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "ema-er": ("er", {"ema": {"momentum": 0.9}}),
    "ema-scr": ("scr", {"ema": {"momentum": 0.9}}),
}


class Quicker(Subject):
    """Has to learn in 50 steps, where `emi-bench check` gives 100."""

    def spec(self, dataset: str, **asked: Any) -> RunSpec:
        return super().spec(dataset, **(asked | {"batch": 8} if dataset == LEARN else asked))


@cache
def subject(case: str, learns: bool) -> Subject:
    """Shared by the checks of a method: most look at the same few runs."""
    register_check_data()
    torch.set_num_threads(1)
    name, config = WRAPPED.get(case, (case, {}))
    kind = Subject if name in LONG or name == "mkd" else Quicker  # a teacher must first know something
    return kind(name, config | QUICK.get(name, {}) | (SOONER.get(name, {}) if learns else {}))


#: Of the wrappers one is enough.
SLOW = {*((n, "learns") for n in (*method_names(), *WRAPPED) if n not in LEARNERS), *((n, "bf16") for n in BF16)}
SLOW |= {(n, c.name) for n in WRAPPED for c in CHECKS if n != "ema-scr"}
CASES = [
    pytest.param(n, c, id=f"{n}-{c.name.replace(' ', '-')}", marks=[pytest.mark.slow] if (n, c.name) in SLOW else [])
    for n in [*method_names(), *WRAPPED]
    for c in CHECKS
]


@pytest.mark.no_cover  # a third longer when traced, and each method's own tests go through the same lines
@pytest.mark.parametrize(("case", "check"), CASES)  # method by method: its checks share runs
def test_conforms(case: str, check: Check) -> None:
    try:
        check.run(subject(case, check.name == "learns"))
    except NotRun as e:
        pytest.skip(str(e))
