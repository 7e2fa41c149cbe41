from __future__ import annotations

from emi_bench.methods.emi import EMI, EMIConfig
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.toy_steps import assert_replays, dual_net


def test_step_trace_is_replayed_in_float64() -> None:
    config = EMIConfig(coefficient=0.5, n_proto=3)
    assert_replays(
        golden("steps/emi_default"),
        lambda draws: EMI(config, toy.problem(), net=dual_net(), memory=toy.memory(), draws=draws, view=toy.view),
    )
