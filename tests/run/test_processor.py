"""A processor that dies in bfloat16 is found out before a run does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emi_bench.errors import UserError
from emi_bench.run import processor


@pytest.fixture
def names_amx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    processor.bf16_crashes.cache_clear()
    monkeypatch.delenv(processor.LIMIT, raising=False)
    monkeypatch.setattr(Path, "read_text", lambda self: "flags: amx_bf16")
    yield
    processor.bf16_crashes.cache_clear()


def ends_with(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: Any, **kw: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(args, code)

    monkeypatch.setattr(processor.subprocess, "run", run)


@pytest.mark.usefixtures("names_amx")
def test_bf16_is_refused_where_the_process_would_die(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_with(-4, monkeypatch)
    with pytest.raises(UserError) as e:
        processor.check_precision("bf16", "cpu")
    assert "export ONEDNN_MAX_CPU_ISA" in e.value.hint
    processor.check_precision("fp32", "cpu")
    processor.check_precision("bf16", "cuda")


@pytest.mark.usefixtures("names_amx")
def test_bf16_is_let_through_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_with(0, monkeypatch)
    processor.check_precision("bf16", "cpu")


@pytest.mark.usefixtures("names_amx")
def test_who_has_limited_the_instructions_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_with(-4, monkeypatch)
    monkeypatch.setenv(processor.LIMIT, processor.WITHOUT_AMX)
    processor.check_precision("bf16", "cpu")
