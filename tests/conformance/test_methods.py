"""What every method promises, whoever wrote it: the battery of `emi-bench check`, over all of them unasked."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from emi_bench.methods import method_names
from emi_bench.testing import CHECKS, Check, NotRun, Subject, register_check_data

#: Overrides that fit a method to streams of seconds and do not change what it does: MKD's teacher follows sooner.
QUICK: dict[str, dict[str, Any]] = {
    "offline": {"epochs": 4, "batch": 16},
    "gdumb": {"epochs": 8},
    "mkd": {"alphas": [0.1]},
}


@cache
def subject(name: str) -> Subject:
    """Shared by the checks of a method: most look at the same few runs."""
    register_check_data()
    torch.set_num_threads(1)
    return Subject(name, QUICK.get(name))


CASES = [pytest.param(n, c, id=f"{n}-{c.name.replace(' ', '-')}") for n in method_names() for c in CHECKS]


@pytest.mark.parametrize(("name", "check"), CASES)  # method by method: its checks share runs
def test_conforms(name: str, check: Check) -> None:
    try:
        check.run(subject(name))
    except NotRun as e:
        pytest.skip(str(e))
