"""What every method promises, whoever wrote it: the battery of `emi-bench check`, over all of them unasked."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from emi_bench.methods import method_names
from emi_bench.testing import CHECKS, Check, NotRun, Subject, register_check_data

#: Overrides that fit a method to streams of seconds and do not change what it does.
QUICK: dict[str, dict[str, Any]] = {
    "offline": {"epochs": 4, "batch": 16},
    "gdumb": {"epochs": 8},
}
#: For the 100 steps in which a method must learn alone. MKD predicts by the mean of its student's and its teacher's
#: weights, and with alpha = 0.01 the teacher has but 63 % of them by then: not yet a network (docs/methods/mkd.md).
SOONER: dict[str, dict[str, Any]] = {"mkd": {"alphas": [0.1]}}
#: Wrappers, as their configuration asks for them.
WRAPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "ema-er": ("er", {"ema": {"momentum": 0.9}}),
    "ema-scr": ("scr", {"ema": {"momentum": 0.9}}),
}


@cache
def subject(case: str, learns: bool) -> Subject:
    """Shared by the checks of a method: most look at the same few runs."""
    register_check_data()
    torch.set_num_threads(1)
    name, config = WRAPPED.get(case, (case, {}))
    return Subject(name, config | QUICK.get(name, {}) | (SOONER.get(name, {}) if learns else {}))


#: The two longest of all by far, and the wrappers but one: `make test-all` has them.
SLOW = {("ocm", "learns"), ("onpro", "learns"), *((n, c.name) for n in WRAPPED for c in CHECKS if n != "ema-scr")}
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
