"""The readings sweeps: every switch of EMI is flipped once, alone, on the same seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_origin

from emi_bench.methods.emi_config import EMIConfig
from emi_bench.sweep.grammar import Sweep
from emi_bench.sweep.grammar.reading import read_grammar

SWEEPS = Path(__file__).parents[2] / "sweeps"
PARTS = {"dualnet", "dmi", "rmi", "smi"}  # the ablation's


def variants(sweep: Sweep) -> list[dict[str, Any]]:
    (emi,) = (m for m in sweep.methods if m.name == "emi")
    return [v for v in emi.configs().values() if v]


def test_every_switch_is_flipped_once_and_alone() -> None:
    first, rest = (read_grammar(SWEEPS / f"{name}.yaml")[0] for name in ("readings", "readings_rest"))
    flips = [v for sweep in (first, rest) for v in variants(sweep) if not v.keys() <= PARTS]
    assert all(len(v) == 1 for v in flips)
    fields = {k: f.annotation for k, f in EMIConfig.model_fields.items() if k in EMIConfig.__annotations__}
    switches = {k for k, kind in fields.items() if kind is bool or get_origin(kind) is Literal} - PARTS
    switches |= {"smi_tau", "replay_class_cap"}  # numbers that are readings too
    flipped = [next(iter(v)) for v in flips]
    assert set(flipped) == switches
    assert [k for k in switches if flipped.count(k) > 1] == ["dmi_pairs"]  # it has three values
    plain = EMIConfig()
    assert all(value != getattr(plain, key) for v in flips for key, value in v.items())


def test_what_emi_is_built_on_runs_on_the_same_cells_and_seeds() -> None:
    first, rest, order = (read_grammar(SWEEPS / f"readings{part}.yaml")[0] for part in ("", "_rest", "_order"))
    assert [m.name for m in first.methods] == [m.name for m in order.methods] == ["ocm", "emi"]
    assert dict.fromkeys(PARTS - {"dualnet"}, False) in variants(first)
    assert first.seeds == rest.seeds == order.seeds
    assert first.settings == rest.settings == order.settings
    assert order.protocol == {"class_order": "natural"}
