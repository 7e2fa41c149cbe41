from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from emi_bench.store.leases import Claim
from emi_bench.sweep import progress
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.live import NOTES, LiveDisplay, make_display
from emi_bench.sweep.outcome import Outcome
from emi_bench.sweep.plan import Plan, expand
from emi_bench.sweep.progress import Display
from tests.sweep.sweeping import ROOT, sweep_file


def shown(tmp_path: Path, terminal: bool) -> tuple[Display, io.StringIO]:
    cells, _ = expand(*read_sweep(sweep_file(tmp_path, methods="er, finetune", seeds=2)))
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None)
    display = make_display(console, Plan(cells, done=cells[:1]), {c.run_id: 10.0 for c in cells[1:]})
    display.cells = cells
    return display, out


def test_plain_lines_tell_every_end_once(tmp_path: Path) -> None:
    display, out = shown(tmp_path, terminal=False)
    assert type(display) is Display
    _, second, third, fourth = display.cells
    with display:
        display.started(second)
        display.ended(second, Outcome("done", 12.0, 0.5, resumed_from=2))
        display.ended(third, Outcome("failed", 1.0, error="ValueError: no"))
        display.ended(fourth, Outcome("held"))
        display.waiting([(fourth, Claim("r", 1, "o", host="node7", pid=3))])
        display.waiting([(fourth, Claim("r", 1, "o", host="node7", pid=3))])
        display.found(fourth)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("[2/4] er digits M=40 seed 1   50.0 %  12 s, went on after task 2")
    assert lines[1] == "FAILED finetune digits seed 0: ValueError: no"
    assert lines[2] == "waiting for 1 run held by another sweep (node7, process 3); Ctrl-C leaves"
    assert len(lines) == 3
    assert (display.n_done, len(display.failures)) == (3, 1)


def test_estimates_are_corrected_by_what_the_runs_took(tmp_path: Path) -> None:
    display, _ = shown(tmp_path, terminal=False)
    display.slots = 2
    assert display.eta() == "15 s (counted, may be far off)"
    display.measured, display.starting = True, 12.0
    assert display.eta() == "27 s (measured before)"  # a first run is yet to begin
    display.ended(display.cells[1], Outcome("done", 30.0, 0.5))
    assert display.eta() == "30 s (measured here)"


def test_estimates_are_corrected_by_running_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    display, _ = shown(tmp_path, terminal=False)
    first = display.cells[1]
    display.started(first)
    now = 1001.0  # within what a first task was estimated at
    assert display.remaining() == pytest.approx(30.0)
    now = 1020.0  # no task yet after 20 s, where a run was to take 10: ten times as long at least
    assert display.correction() == pytest.approx(10.0)
    display.ended(display.cells[2], Outcome("failed", 300.0, error="waited for a disk"))
    assert display.correction() == pytest.approx(10.0)  # what failed says nothing of what the others take
    display.progressed(first, 2, 5, 0.1)  # went on after two
    display.progressed(first, 3, 5, 0.1)
    now = 1040.0
    assert display.correction() == pytest.approx(20.0 / 2.0)  # one of five tasks, with half of the time it has run
    assert display.eta().endswith("(measured here)")
    display.ended(first, Outcome("done", 50.0, 0.5))
    assert display.remaining() == pytest.approx(10.0 * 5)


def test_a_terminal_shows_the_table_filling_up_and_the_running_cells(tmp_path: Path) -> None:
    display, _ = shown(tmp_path, terminal=True)
    assert isinstance(display, LiveDisplay)
    second = display.cells[1]
    display.started(second)
    display.progressed(second, 1, 5, 0.25)
    screen = io.StringIO()
    Console(file=screen, width=100, color_system=None).print(display.render())
    text = screen.getvalue()
    assert "1/2" in text  # er, of which one was there before
    assert "0/2" in text
    assert "er digits M=40 seed 1" in text
    assert "task 2/5  25.0 %" in text
    assert "1/4 done  1 running" in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 30), (60, 10), (40, 6)])
def test_the_view_of_table1_fits_and_always_has_its_total(width: int, height: int) -> None:
    cells, _ = expand(*read_sweep(ROOT / "sweeps" / "table1.yaml"))
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    display = make_display(console, Plan(cells, done=cells[:7]), {c.run_id: 60.0 for c in cells[7:]})
    assert isinstance(display, LiveDisplay)
    for cell in cells[7:207:10]:
        display.started(cell)
    with console.capture() as screen:
        console.print(display.render())
    lines = screen.get().rstrip("\n").split("\n")
    assert len(lines) <= max(4, height - NOTES)  # what is noted above stays in sight
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("7/1230 done  20 running")
    assert "…" not in "".join(lines[:-1])
    if width == 120:
        assert lines[0].split() == [d for d in ("cifar10", "cifar100", "tinyimagenet") for _ in range(3)]
        settings = read_sweep(ROOT / "sweeps" / "table1.yaml")[0].settings
        assert lines[1].split() == [str(m) for s in settings for m in sorted(s.memory)]
    if width == 80:
        assert lines[0].split() == ["cifar10", "cifar100", "tinyimagenet"]
        assert len([line for line in lines if line.startswith("emi ")]) == 1
