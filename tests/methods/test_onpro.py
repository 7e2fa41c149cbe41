"""OnPro in the toy world against a second, literal implementation, and the behaviour of its parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from emi_bench.draws import Draws
from emi_bench.methods.onpro import ClassMeans, OnPro, OnProConfig
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests import toy_world as toy
from tests.methods.onpro_toy import BASE_RATE, COEFFICIENT, Literal, P, PlanDraws, batch_norm_steps
from tests.methods.test_ocm import digits_batch
from tests.methods.toy_steps import plain_net

CONFIG = OnProConfig(coefficient=COEFFICIENT, mixup_p=P, base_rate=BASE_RATE)
DIGITS = Problem("digits", n_classes=10, n_tasks=5, image_size=8, memory=30, replay_batch=8, width=2)


def toy_onpro(draws: Draws, config: OnProConfig = CONFIG, **changes: Any) -> OnPro:
    problem = toy.problem(**changes)
    return OnPro(config, problem, net=plain_net(), memory=toy.memory(), draws=draws, view=toy.view)


def learn(method: OnPro, steps: slice = slice(None)) -> list[dict[str, Tensor]]:
    """Feed the toy stream; a plan's draws are told which step they are at."""
    losses = []
    for plan, x, y, last in list(toy.batches())[steps]:
        if isinstance(method.draws, PlanDraws):
            method.draws.begin(plan, feedback=plan["task"] > 0 and plan["batch_in_task"] > 0)
        losses.append(method.observe(x, y))
        stored = method.memory.label_list(range(method.memory.filled))
        if isinstance(method.draws, PlanDraws):
            assert stored == [c for c in plan["memory_labels_after"] if c is not None and c >= 0]
            assert not method.draws.left()
        if last:
            method.end_task()
    return losses


def digits_onpro(**changes: Any) -> OnPro:
    config = OnProConfig(mixup_p=1.0)
    return OnPro.build(config, Problem(**(vars(DIGITS) | changes)), weight_seed=0, draws=Draws(0))


# --- whole steps ---------------------------------------------------------------------------------------------------


def test_eleven_steps_equal_the_literal_implementation_in_float64() -> None:
    method, literal = toy_onpro(PlanDraws()), Literal()
    for step, plan in enumerate(toy.PLAN):
        expected = literal.step(plan)
        (losses,) = learn(method, slice(step, step + 1))
        assert losses.keys() == expected.keys()
        for name, value in losses.items():
            assert value.item() == pytest.approx(expected[name], rel=1e-9, abs=1e-12), (step, name)
        theirs = literal.net.state_dict()
        for name, mine in method.net.state_dict().items():
            torch.testing.assert_close(mine, theirs[name], rtol=1e-8, atol=1e-9, msg=f"step {step}: {name}")


def test_recorded_draws_alone_repeat_the_run() -> None:
    draws = PlanDraws()
    first = learn(toy_onpro(draws))
    script = ScriptedDraws(draws.record)
    again = learn(toy_onpro(script))
    assert first == again
    assert not script.left()
    assert {"apf_base", "apf_lam", "apf_pick", "apf_pair_lam", "onpro_proto_slots"} <= draws.record.keys()


def test_terms_and_forwards_of_each_kind_of_step() -> None:
    method = toy_onpro(PlanDraws())
    rows: list[int] = []
    method.net.slow.register_forward_pre_hook(lambda m, args: rows.append(len(args[0])))
    stream = {"ntx_n", "ope_new", "ce"}
    for step, terms, expected in [
        (0, stream, [32 * 4, 4]),  # an empty memory has no prototypes
        (1, stream | {"ope_seen"}, [32 * 4, 2 * 4, 4]),  # prototypes before the classifier
        (2, stream | {"ope_seen"}, [32 * 4, 2 * 6, 4]),
        (3, stream | {"ope_seen"}, [32 * 4, 2 * 6, 4]),
        (4, stream | {"ope_seen"}, [32 * 2, 2 * 6, 2]),
        (5, stream | {"ope_seen", "ntx_uni"}, [32 * 10, 6, 2 * 6]),  # and after it
        (6, stream | {"ope_seen", "ntx_uni"}, [32 * 10, 6, 2 * 6]),
    ]:
        before = batch_norm_steps(method.net)
        (losses,) = learn(method, slice(step, step + 1))
        assert losses.keys() == terms
        assert rows == expected
        assert batch_norm_steps(method.net) == before + len(expected)
        rows.clear()


def test_one_class_in_the_batch_has_nothing_to_contrast() -> None:
    losses = learn(toy_onpro(PlanDraws()))
    assert [losses[step]["ope_new"].item() for step in (1, 8)] == [0, 0]


# --- feedback ------------------------------------------------------------------------------------------------------


def ready(memory: int = 30, classes: tuple[int, ...] = (0, 1, 2, 3), **changes: Any) -> OnPro:
    """In its second task, after the first batch, with some images of each class in memory."""
    method = digits_onpro(memory=memory, **changes)
    method.observe(*digits_batch(memory, classes))
    method.end_task()
    method.observe(*digits_batch(10, (8, 9), 1))
    return method


def compose(method: OnPro) -> Any:
    return method.feedback(method.gather(*digits_batch(4, (8, 9), 2)))


def test_feedback_begins_with_the_second_batch_of_a_task() -> None:
    method = ready()
    assert method.batch_in_task == 1
    assert len(compose(method).images) == 8
    method.end_task()
    assert method.batch_in_task == 0
    assert compose(method) is None


def test_fewer_than_two_prototypes_means_no_feedback() -> None:
    method = ready(classes=(3,))
    assert method.classes_mean is not None
    method.classes_mean = ClassMeans.of([3], torch.ones(1, 12))
    assert compose(method) is None
    assert all(value.isfinite() for value in method.observe(*digits_batch(4, (8, 9), 3)).values())


def test_a_memory_smaller_than_the_replay_batch_caps_the_random_part() -> None:
    method = ready(memory=5, replay_batch=40)
    feedback = compose(method)  # 6 classes seen: 40 asked for, 36 + 4; five are stored
    assert len(feedback.images) == 5 + 4


def test_a_class_that_memory_has_lost_is_replaced_by_a_stored_one() -> None:
    method = ready()
    method.classes_mean = ClassMeans.of([1, 7], torch.eye(2, 12))  # there never was a 7
    feedback = compose(method)
    assert set(feedback.a[7:].tolist()) <= {1}
    assert set(feedback.b.tolist()) <= set(method.memory.classes())


def test_close_classes_get_more_images() -> None:
    method = ready(replay_batch=40)
    method.config = method.config.model_copy(update={"base_rate": 0.0})
    far = torch.eye(4, 12)
    far[3] = far[2] + 0.2 * far[0]
    method.classes_mean = ClassMeans.of([0, 1, 2, 3], far)
    feedback = compose(method)
    pairs = list(zip(feedback.a.tolist(), feedback.b.tolist(), strict=True))
    assert pairs.count((2, 3)) > 30
    assert len(pairs) == 40


def test_mixed_images_are_made_of_the_images_their_labels_name() -> None:
    method = ready()
    images = method.pixels(method.memory.images)
    with torch.no_grad():  # every image of a class is the class number, so that pixels can be read as labels
        for c in method.memory.classes():
            method.memory.images[method.memory.slots_of(c)] = c * 20
    expected = method.pixels(torch.arange(10, dtype=torch.uint8)[:, None, None, None].mul(20).expand(-1, 3, 8, 8))
    for _ in range(5):
        feedback = compose(method)
        lam = feedback.lam.float().view(-1, 1, 1, 1)
        torch.testing.assert_close(feedback.images, (1 - lam) * expected[feedback.a] + lam * expected[feedback.b])
        whole = feedback.a == feedback.b
        assert torch.equal(feedback.labels[whole], feedback.a[whole].double())
        torch.testing.assert_close(feedback.labels, (1 - feedback.lam) * feedback.a + feedback.lam * feedback.b)
    assert images.shape == (30, 3, 8, 8)


def test_the_share_of_mixed_samples_is_p_squared() -> None:
    method = ready()
    method.config = method.config.model_copy(update={"mixup_p": 0.6, "base_rate": 1.0})
    lam = torch.stack([compose(method).lam for _ in range(400)])
    assert (lam > 0).double().mean().item() == pytest.approx(0.36, abs=0.05)
    assert (lam > 0).any(1).double().mean().item() == pytest.approx(0.6, abs=0.08)  # whole batches stay plain
    assert lam.max() < 0.6


def test_feedback_looks_at_the_prototypes_of_the_step_before() -> None:
    method = ready()
    before = method.classes_mean
    seen: list[ClassMeans] = []
    close_pairs = method.close_pairs
    method.close_pairs = lambda last, n: (seen.append(last), close_pairs(last, n))[1]
    method.observe(*digits_batch(4, (8, 9), 2))
    assert seen == [before]
    assert method.classes_mean is not before


def test_prototypes_are_the_plain_average_of_both_views() -> None:
    method = ready()
    assert method.classes_mean is not None
    norms = method.classes_mean.means.norm(dim=1)
    assert method.classes_mean.means.shape == (len(method.classes_mean.classes), 12)
    assert (norms < 1).all()
    assert not method.classes_mean.means.requires_grad


def test_first_task_prototypes_are_not_capped_by_the_classes_seen() -> None:
    method = digits_onpro(replay_batch=20)
    method.observe(*digits_batch(30, (0, 1)))
    rows: list[int] = []
    method.net.slow.register_forward_pre_hook(lambda m, args: rows.append(len(args[0])))
    method.observe(*digits_batch(4, (0, 1), 1))
    assert method.replay_size() == 14
    assert rows == [32 * 4, 2 * 20, 4]


# --- constants, checkpoints, precision -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("cifar10", (0.5, 0.6, 0.75)),
        ("cifar100", (1, 0.2, 0.9)),
        ("tinyimagenet", (1, 0.2, 0.9)),
        ("mine", (1, 0.2, 0.9)),
    ],
)
def test_data_set_constants_are_resolved(dataset: str, expected: tuple[float, ...]) -> None:
    problem = Problem(dataset, 10, 5, 32, memory=10)
    config = OnProConfig().resolve(problem)
    assert (config.coefficient, config.mixup_p, config.base_rate) == expected
    assert (config.optimizer, config.lr, config.betas, config.weight_decay) == ("adam", 5e-4, (0.9, 0.99), 1e-4)
    assert config.resolve(problem) == config
    assert OnProConfig(mixup_p=0.0).resolve(problem).mixup_p == 0


def test_recomputing_the_joint_forward_changes_nothing() -> None:
    plain = learn(toy_onpro(Draws(0)), slice(3, 9))
    assert plain == learn(toy_onpro(Draws(0), CONFIG.model_copy(update={"checkpoint_joint": True})), slice(3, 9))


def test_bfloat16_autocast_stays_close_to_float32() -> None:
    def run(enabled: bool) -> list[dict[str, Tensor]]:
        method = digits_onpro(memory=20)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = [method.observe(*digits_batch(10, (0, 1)))]
            method.end_task()
            return out + [method.observe(*digits_batch(10, (2, 3), i)) for i in range(3)]

    for step, (half, full) in enumerate(zip(run(True), run(False), strict=True)):
        assert half.keys() == full.keys()
        for name, value in full.items():
            assert half[name].dtype == torch.float32
            assert half[name].isfinite()
            # from the third step on the prototypes decide what is replayed, and a rounding may tip that
            assert step > 1 or half[name].item() == pytest.approx(value.item(), rel=0.06, abs=0.08), (step, name)


class Waits(TorchDispatchMode):
    """Operations for which the host would wait for a GPU. Integers are left out: host decisions are made of them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        if name in ("aten::nonzero", "aten::masked_select", "aten::_unique2"):
            self.names.append(name)
        if name == "aten::_local_scalar_dense" and args[0].is_floating_point():
            self.names.append(name)
        return func(*args, **(kwargs or {}))


def test_a_step_reads_no_network_value_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    method = ready()
    monkeypatch.setattr(method, "descend", lambda loss: None)  # the optimiser's step counter is a host tensor
    with Waits() as waits:
        method.observe(*digits_batch(4, (8, 9), 2))
    assert waits.names == []
    with Waits() as waits:
        method.net.linear.weight.sum().item()
    assert waits.names == ["aten::_local_scalar_dense"]
