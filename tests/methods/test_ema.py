"""Weight averaging: the recorded average, training that does not notice it, and what it changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.errors import UserError
from emi_bench.memory import Memory
from emi_bench.methods import Method, get_method, method_names
from emi_bench.methods.base import EMA
from emi_bench.methods.ema import Averaged, averaged_where_asked
from emi_bench.methods.finetune import FineTune
from emi_bench.run.resolve import resolve
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.small_images import batch, small_problem
from tests.replay_toy import replay_problem, samples, toy_net

STREAM = [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 1, 1], [2, 3, 3, 2], [3, 2, 2, 3]]


def test_recorded_average_in_float64() -> None:
    recorded = golden("modern_ema_mkd")["ema"]
    x, y = samples(torch.float64)
    config = FineTune.config_class(ema=EMA(momentum=recorded["momentum"]))
    net = toy_net(recorded["initial_state"], torch.float64)
    bare = FineTune(config, replay_problem(memory=0), net=net, memory=Memory(0, (3, 2, 2)), draws=Draws(0))
    method = averaged_where_asked(bare)
    assert isinstance(method, Averaged)
    for step in recorded["steps"]:
        method.observe(x[step["ids"]], y[step["ids"]])
        toy.assert_state(method.net, step["student"], atol=1e-9)
        toy.assert_state(method.average, step["running"], atol=1e-9)
    assert method.average.bn.num_batches_tracked == method.net.bn.num_batches_tracked == len(recorded["steps"])
    query = x[recorded["query_ids"]]
    student = torch.tensor(recorded["logits_student"], dtype=torch.float64)
    with method.evaluating(), torch.no_grad():
        torch.testing.assert_close(method.net(query), student, atol=1e-9, rtol=0)
    method.average.eval()
    expected = torch.tensor(recorded["logits_running"], dtype=torch.float64)
    torch.testing.assert_close(method.average(query), expected, atol=1e-9, rtol=0)
    assert torch.equal(method.predict(query), expected.argmax(1))


def build(name: str, momentum: float | None) -> Method:
    cls = get_method(name)
    config = cls.config_class(ema=None if momentum is None else EMA(momentum=momentum))
    return averaged_where_asked(cls.build(config, small_problem(), weight_seed=1, draws=Draws(2))).train()


def taught(method: Method) -> list[dict[str, Tensor]]:
    losses = [method.observe(*batch(labels, seed)) for seed, labels in enumerate(STREAM[:4])]
    method.end_task()
    method.predict(batch([0] * 3)[0])
    return losses + [method.observe(*batch(labels, 10 + seed)) for seed, labels in enumerate(STREAM[4:])]


#: Of each way to train and to predict one; `make test-all` asks every method.
QUICK = {"er", "scr", "ssd", "ocm", "ccl_dc", "mose"}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in method_names() if n != "gdumb"]
)
def test_training_is_that_of_the_bare_method_bit_for_bit(name: str) -> None:
    bare, wrapped = build(name, None), build(name, 0.9)
    assert isinstance(wrapped, Averaged)
    for mine, theirs in zip(taught(wrapped), taught(bare), strict=True):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[k], theirs[k]) for k in mine)
    state = wrapped.inner.state_dict()
    for key, value in bare.state_dict().items():
        assert torch.equal(state[key], value) if isinstance(value, Tensor) else key.endswith("_extra_state"), key
    assert wrapped.draws.state() == bare.draws.state()
    weights = dict(wrapped.net.named_parameters())
    assert any(not torch.equal(r, weights[k]) for k, r in wrapped.average.named_parameters())
    assert not any(k.startswith("average") and v.requires_grad for k, v in wrapped.named_parameters())


@pytest.mark.parametrize("name", ["er", "scr", "onpro"])
def test_without_momentum_predictions_are_those_of_the_bare_method(name: str) -> None:
    bare, wrapped = build(name, None), build(name, 0.0)
    taught(bare), taught(wrapped)
    images, _ = batch([0] * 40, 99)
    assert torch.equal(bare.predict(images), wrapped.predict(images))
    assert torch.equal(bare.embed(images), wrapped.embed(images))
    assert wrapped.training
    assert wrapped.net.training


def test_a_checkpoint_holds_the_average() -> None:
    method, twin = build("scr", 0.9), build("scr", 0.9)
    taught(method)
    twin.load_state_dict(copy.deepcopy(method.state_dict()))
    for one in (method, twin):
        one.observe(*batch([2, 3, 2, 2], 50))
    for key, value in method.average.state_dict().items():
        assert torch.equal(value, twin.average.state_dict()[key]), key
    images, _ = batch([0] * 40, 99)
    assert torch.equal(method.predict(images), twin.predict(images))


def test_a_step_that_trains_nothing_does_not_average() -> None:
    method = build("scr", 0.5)
    before = copy.deepcopy(method.average.state_dict())
    assert method.observe(*batch(STREAM[0])) == {}
    assert all(torch.equal(v, before[k]) for k, v in method.average.state_dict().items())


def test_what_cannot_be_averaged_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to average"):
        resolve("gdumb", "digits", memory=20, config={"ema": {"momentum": 0.9}})
    with pytest.raises(UserError, match="ema"):
        resolve("er", "digits", memory=20, config={"ema": {"momentum": 1.0}})


def asked(**config: Any) -> str:
    return resolve("er", "digits", memory=20, config=config).run_id


def test_only_where_it_is_asked_for_it_is_part_of_the_id() -> None:
    assert asked() == asked(ema=None)
    assert asked() != asked(ema={"momentum": 0.99}) == asked(ema={}) != asked(ema={"momentum": 0.9})
