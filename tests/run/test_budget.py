"""Streams without boundaries, and streams that do not wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from emi_bench.data import load
from emi_bench.data.stream import Stream
from emi_bench.errors import UserError
from emi_bench.methods import get_method, method_names
from emi_bench.run.loop import run
from emi_bench.run.resolve import resolve
from emi_bench.run.spec import RunSpec
from emi_bench.seeds import seed_for
from tests.synthetic import blobs, register_blobs

#: By method, in steps of ER, at CIFAR-10 and M = 1000.
COSTS = {
    "finetune": 0.135135,
    "offline": None,
    "agem": 1,
    "er": 1,
    "mir": 3.882883,
    "gss": 2.486486,
    "aser": 4.2,
    "gdumb": 0.405405,
    "dvc": 7.765766,
    "scr": 2,
    "pcr": 2,
    "ssd": 4,
    "ocm": 37.765766,
    "onpro": 34.594595,
    "emi": 55.73221,
    "er_ace": 1,
    "derpp": 1.864865,
    "gsa": 2.594595,
    "mose": 5.448649,
    "mkd": 2.333333,
    "ccl_dc": 10,
}
CLASSES = 10 * (1 - 0.9**74)  # that 74 images are expected to have
SMALL = {"batch": 4, "replay_batch": 4, "width": 2}


@pytest.fixture(autouse=True)
def data() -> None:
    """Two tasks of 32 images: eight steps each."""
    register_blobs("budgeted", classes=4, n_tasks=2, per_class=16)


def spec(method: str = "er", config: Any = None, **protocol: Any) -> RunSpec:
    return resolve(method, "budgeted", memory=8, config=config, protocol=SMALL | protocol)


def seen_by(asked: RunSpec, monkeypatch: pytest.MonkeyPatch) -> tuple[list[torch.Tensor], int]:
    """The labels of every batch that the method was given, and how often it was told of a task's end."""
    cls, batches, ends = get_method(asked.method), [], []
    with monkeypatch.context() as m:
        m.setattr(cls, "observe", lambda self, x, y, real=cls.observe: (batches.append(y), real(self, x, y))[1])
        m.setattr(cls, "end_task", lambda self, real=cls.end_task: (ends.append(1), real(self))[1])
        run(asked, load("budgeted"))
    return batches, len(ends)


def test_costs_are_those_of_the_specification() -> None:
    """anytime.md, section 6, at CIFAR-10 and M = 1000: trains on every so many-th batch."""
    found = {m: resolve(m, "cifar10", memory=1000, protocol={"budget": "realtime"}) for m in method_names()}
    assert {m: s.cost for m, s in found.items()} == COSTS  # ids go by them
    expected = {"er": 1, "finetune": 1, "scr": 2, "mir": 4, "ocm": 38, "emi": 56}
    assert {m: found[m].train_every for m in expected} == expected
    ends = 3 * 30 * 1000 * 5  # its work is at the task ends
    assert found["gdumb"].cost == pytest.approx(ends / (5000 * 222), rel=1e-3)


@pytest.mark.parametrize(
    ("method", "config", "forwards"),
    [
        ("emi", {"n_proto": 1}, 1.415 * (3 * (32 * 74 + 64 + 2 * CLASSES) + 17 * 64)),
        ("emi", {"n_proto": 12}, 1.415 * (3 * (32 * 74 + 64 + 24 * CLASSES) + 17 * 64)),
        ("emi", {"smi": False}, 55.73221 * 222),  # RMI has the same prototypes
        ("emi", {"rmi": False, "smi": False}, 1.415 * (3 * (32 * 74 + 64) + 17 * 64)),
        ("emi", {"dualnet": False, "dmi": False}, 3 * (32 * 74 + 64 + 12 * CLASSES) + 17 * 64),
        ("emi", {"ocm_logit_mse": True}, 55.73221 * 222 + 1.415 * 64),
        ("emi", {"checkpoint_joint": True}, 55.73221 * 222),  # it is in no id
        ("mir", {"pool": 5}, 222 + 2 * 5),
        ("mir", {"mem_iters": 3}, 3 * (222 + 2 * 320)),
        ("dvc", {"pool": 5}, 444 + 4 * 5),
        ("dvc", {"pool": 5000}, 444 + 4 * 1000),  # no more than the memory
        ("gss", {"n_subsets": 2, "subset_size": 3}, 222 + 3 * (6 + 10)),
        ("agem", {"mem_iters": 3}, 3 * 222),
        ("aser", {"n_smp_cls": 18}, (1 + 2 * 3.2) * 222),
        ("derpp", {"alpha": 0}, 222),
        ("derpp", {"alpha": 0, "source_bn": True}, 222 + 192),
        ("mkd", {"base": "derpp", "base_config": {"beta": 0}}, 222 * (2 + 1 / 3)),
        ("scr", {"review": True}, 444 + 7 * 5 * 1000 / 5000),
    ],
)
def test_constants_that_change_the_work_change_the_cost(method: str, config: dict[str, Any], forwards: float) -> None:
    asked = resolve(method, "cifar10", memory=1000, config=config, protocol={"budget": "realtime"})
    assert asked.cost == pytest.approx(forwards / 222, abs=1e-5)


def test_a_larger_budget_is_shared_the_same_way() -> None:
    def every(budget: Any, **config: Any) -> int:
        return spec("er", config, budget=budget).train_every

    assert every({"updates": 5}, mem_iters=10) == 2
    assert every({"updates": 10}, mem_iters=10) == 1
    assert every("realtime", mem_iters=10) == 10
    assert every("none", mem_iters=10) == 1
    assert spec(budget={"updates": 1}).run_id == spec(budget="realtime").run_id


def test_who_cannot_keep_up_sees_the_batches_between_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = spec("er", {"mem_iters": 3}, budget="realtime")
    assert (asked.cost, asked.train_every) == (3, 3)
    batches, ends = seen_by(asked, monkeypatch)
    stream = Stream.of(load("budgeted"), 2, 0)
    whole = [y for t in range(2) for _, y in stream.batches(stream.order(t), 4)]
    assert len(batches) == 6
    assert all(torch.equal(a, b) for a, b in zip(batches, whole[::3], strict=True))
    assert ends == 2


def test_the_share_is_part_of_the_id_and_of_the_row() -> None:
    plain, paced = spec(), spec(budget="realtime")
    assert plain.run_id == resolve("er", "budgeted", memory=8, protocol=SMALL).run_id
    assert "train_every" not in plain.identity()
    assert plain.cost is None
    assert paced.run_id != plain.run_id  # another protocol, also where the method keeps up
    dear = spec("er", {"mem_iters": 3}, budget="realtime")
    assert dear.identity()["train_every"] == 3
    assert "protocol.budget=1.0" in dear.command()


def test_offline_has_no_stream_to_keep_up_with() -> None:
    offline = resolve("offline", "budgeted", protocol=SMALL | {"budget": "realtime"})
    assert (offline.cost, offline.train_every) == (None, 1)


@pytest.mark.parametrize("budget", [0, -1, "soon", {"update": 2}])
def test_wrong_budgets_are_refused(budget: Any) -> None:
    with pytest.raises(UserError, match="budget"):
        spec(budget=budget)


def literal(order: list[int], scale: float, seed: int) -> list[int]:
    """The source's loop: quadratic."""
    rng, left, out = np.random.default_rng(seed), list(order), []
    while left:
        at = int(np.floor(abs(rng.normal(0, scale))))
        tries = 0
        while at >= len(left) and tries < 10:
            at = int(np.floor(abs(rng.normal(0, scale))))
            tries += 1
        out.append(left.pop(at if at < len(left) else 0))
    return out


@pytest.mark.parametrize("scale", [3.0, 40.0, 1000.0])
def test_a_blurry_stream_is_the_source_s(scale: float) -> None:
    stream = Stream.of(blobs("x", 6, 30), 3, seed=5)
    clear = np.concatenate([stream.order(t) for t in range(3)])
    mixed = stream.blurry_orders(scale)
    assert [len(m) for m in mixed] == [60, 60, 60]
    assert np.concatenate(mixed).tolist() == literal(clear.tolist(), scale, seed_for(5, "blur"))
    assert sorted(np.concatenate(mixed)) == list(range(180))


def test_without_blur_it_is_the_clear_one() -> None:
    stream = Stream.of(blobs("x", 4, 10), 2, seed=0)
    for t, order in enumerate(stream.blurry_orders(1e-9)):
        np.testing.assert_array_equal(order, stream.order(t))


def test_nobody_is_told_where_a_task_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, ends = seen_by(spec(stream="blurry", blur=20), monkeypatch)
    assert ends == 0
    assert sorted(torch.cat(batches).tolist()) == sorted(load("budgeted").y_train.tolist())
    first = {*torch.cat(batches[:8]).tolist()}
    assert len(first) > 2  # classes of the second task have come early
    assert spec(stream="blurry").run_id != spec().run_id
    assert spec(blur=7).run_id == spec().run_id  # it changes nothing there


@pytest.mark.parametrize("method", ["ocm", "onpro", "emi", "ssd", "gdumb"])
def test_methods_that_need_task_ends_are_refused(method: str) -> None:
    with pytest.raises(UserError, match="where a task ends"):
        spec(method, stream="blurry")


def test_a_review_at_task_ends_is_refused() -> None:
    assert spec("scr", stream="blurry")
    with pytest.raises(UserError, match="its review needs"):
        spec("scr", {"review": True}, stream="blurry")
