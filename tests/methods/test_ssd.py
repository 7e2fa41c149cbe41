"""SSD: the recorded summarise events, and the decisions of the method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from emi_bench.draws import Draws
from emi_bench.errors import UserError
from emi_bench.losses.matching import matching_loss
from emi_bench.memory.summary import Summaries, SummaryMemory
from emi_bench.methods.ssd import SSD, SSDConfig
from emi_bench.nets import ResNet
from emi_bench.nets.convnet import ConvNet
from emi_bench.nets.heads import ContrastiveNet, projection_mlp
from emi_bench.problem import Problem
from emi_bench.testing import ScriptedDraws
from tests.golden_files import golden
from tests.losses.test_matching import convnet

EVENTS = golden("ssd_matching")["summarise_events"]


def problem(**changes: Any) -> Problem:
    values = {"dataset": "toy", "n_classes": 4, "n_tasks": 2, "image_size": 8, "memory": 12, "batch": 4}
    return Problem(**(values | {"replay_batch": 6, "width": 2} | changes))


def identity(x: Tensor, draws: Draws) -> Tensor:
    return x


def ssd(
    config: SSDConfig | None = None,
    *,
    draws: Draws | None = None,
    helper: Callable[[int], nn.Module] | None = None,
    match_view: Any = identity,
    dtype: torch.dtype = torch.float32,
    **changes: Any,
) -> SSD:
    p = problem(**changes)
    config = (config or SSDConfig(queue=3, interval=2, helper_width=4)).resolve(p)
    torch.manual_seed(0)
    encoder = ResNet(2, image_size=8, pooling="global")
    net = ContrastiveNet(encoder, projection_mlp(encoder.out_dim, 8)).to(dtype)
    method = SSD(
        config,
        p,
        net=net,
        memory=SSD.make_memory(config, p),
        draws=draws or Draws(0),
        view=identity,
        helper=helper,
        match_view=match_view,
    )
    return method.train()


def batch(classes: tuple[int, ...], seed: int, n: int = 4) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    y = torch.tensor([classes[i % len(classes)] for i in range(n)])
    return torch.randint(0, 256, (n, 3, 8, 8), generator=rng, dtype=torch.uint8), y


def feed(method: SSD, classes: tuple[int, ...], steps: int, start: int = 0) -> list[int]:
    """Iterations of the task at which there was a summarise event."""
    events = []
    for i in range(steps):
        if "match" in method.observe(*batch(classes, start + i)):
            events.append(i)
    return events


# --- the recorded events -----------------------------------------------------------------------------------------


def test_recorded_events_with_their_momentum_coupling() -> None:
    config = SSDConfig(images_per_class=1, lr_img=0.1, queue=2, interval=2, helper_lr=0)
    asked = []

    def helper(k: int) -> nn.Module:
        asked.append(k)
        return convnet(EVENTS["convnet_params"], torch.float32)

    method = ssd(config, helper=helper, memory=20)
    for i, event in enumerate(EVENTS["events"]):
        losses = method.observe(torch.tensor(event["x"]), torch.tensor(event["y"]))
        assert ("match" in losses) == event["summarised"] == (i in (2, 4))
        slots = [slot for c in (0, 1) for slot in method.memory.summary_slots(c)]
        assert slots == event["summary_slots"]
        expected = torch.tensor(event["summary_img_after"])
        torch.testing.assert_close(method.memory.images[slots], expected, atol=2e-5, rtol=0)
        assert method.task is not None
        if event["condense_x"] is not None:
            torch.testing.assert_close(method.task.summaries.z, torch.tensor(event["condense_x"]), atol=2e-5, rtol=0)
    assert asked == [2]


def test_momentum_of_one_class_moves_the_others_rows() -> None:
    """Z - memory of class 0 after the first event is 0.9 of its own step."""
    summaries = Summaries(lr=0.5, momentum=0.9)
    start, g = torch.rand(2, 3, 2, 2), torch.rand(2, 3, 2, 2)
    summaries.append(0, start)
    summaries.append(1, torch.zeros(2, 3, 2, 2))
    summaries.step(0, g)
    stored = summaries.of(0).clone()
    summaries.step(1, torch.zeros(2, 3, 2, 2))
    torch.testing.assert_close(stored, start - 0.5 * g)
    torch.testing.assert_close(summaries.of(0) - stored, 0.9 * -0.5 * g)


def test_summaries_are_torch_sgd_with_momentum() -> None:
    rng = torch.Generator().manual_seed(0)
    z = nn.Parameter(torch.rand(4, 3, 2, 2, generator=rng))
    summaries, sgd = Summaries(0.1, 0.9), torch.optim.SGD([z], lr=0.1, momentum=0.9)
    for c in (0, 1):
        summaries.append(c, z.detach()[2 * c : 2 * c + 2])
    for step in range(6):
        g = torch.rand(2, 3, 2, 2, generator=rng)
        z.grad = torch.zeros_like(z)
        z.grad[2 * (step % 2) :][:2] = g
        sgd.step()
        summaries.step(step % 2, g)
    torch.testing.assert_close(summaries.z, z.detach(), atol=1e-6, rtol=0)


# --- when there is an event --------------------------------------------------------------------------------------


def test_events_need_a_full_queue_and_come_at_multiples_of_the_interval() -> None:
    """With the authors' queue of 64 and interval of 6: 66, 72, 78, ... of each task."""
    method = ssd(SSDConfig(helper_width=2), memory=8)
    method.contrast = lambda images, labels: images.sum() * 0 + next(method.net.parameters()).sum()
    assert feed(method, (2, 0), 80) == [66, 72, 78]
    method.end_task()
    assert feed(method, (1, 3), 74) == [66, 72]


def test_a_batch_that_opens_summary_slots_has_no_event() -> None:
    method = ssd(SSDConfig(queue=1, interval=1, images_per_class=3, helper_width=4))
    assert feed(method, (0, 1), 5) == [2, 3, 4]  # two images of a class a batch: slots open at 0 and 1


def test_there_is_no_event_without_summary_slots() -> None:
    method = ssd(SSDConfig(queue=1, interval=1, helper_width=4), memory=3)
    assert method.config.images_per_class == 0
    assert feed(method, (0, 1), 4) == []
    assert len(method.memory.real_slots()) == 3


def test_only_classes_of_the_batch_are_stepped_and_late_ones_join() -> None:
    """The fallback for a shuffled stream: a class enters Z when its slots are complete, with no momentum."""
    method = ssd(SSDConfig(queue=2, interval=1, images_per_class=2, helper_width=4))
    feed(method, (0,), 3)
    assert method.task is not None
    assert list(method.task.summaries.rows) == [0]
    method.observe(*batch((0, 0, 0, 1), 10))  # opens a slot of class 1: no event
    kept = method.memory.images[method.memory.summary_slots(1)].clone()
    losses = method.observe(*batch((0,), 11))
    assert "match" in losses
    assert list(method.task.summaries.rows) == [0]  # class 1 is incomplete
    assert torch.equal(method.memory.images[method.memory.summary_slots(1)], kept)
    method.observe(*batch((1, 1, 1, 0), 12))
    before = method.memory.images[method.memory.summary_slots(0)].clone()
    assert "match" in method.observe(*batch((1,), 13))
    assert list(method.task.summaries.rows) == [0, 1]
    assert torch.equal(method.memory.images[method.memory.summary_slots(0)], before)  # not in the batch
    assert method.task.summaries.z.shape[0] == 4


def test_events_change_the_summaries_of_the_task_and_nothing_else() -> None:
    method = ssd()
    feed(method, (0, 1), 6)
    images, labels = method.memory.images.clone(), method.memory.labels.clone()
    memory = method.memory
    update = SummaryMemory.update
    memory.update = lambda x, y, draws: None
    assert "match" in method.observe(*batch((0, 1), 6))
    memory.update = lambda *args: update(memory, *args)
    own = memory.summary_slots(0) + memory.summary_slots(1)
    others = [s for s in range(12) if s not in own]
    assert torch.equal(memory.labels, labels)
    assert torch.equal(memory.images[others], images[others])
    assert all(not torch.equal(memory.images[s], images[s]) for s in own)


def test_summaries_of_finished_tasks_are_frozen() -> None:
    method = ssd()
    assert feed(method, (0, 1), 8)
    method.end_task()
    slots = method.memory.summary_slots(0) + method.memory.summary_slots(1)
    kept = method.memory.images[slots].clone()
    assert feed(method, (2, 3), 9)
    assert method.task is not None
    assert sorted(method.task.summaries.rows) == [2, 3]
    method.end_task()
    assert method.memory.summary_slots(0) + method.memory.summary_slots(1) == slots
    assert torch.equal(method.memory.images[slots], kept)
    assert method.memory.counts() == {0: 3, 1: 3, 2: 3, 3: 3}  # M/C: no real image is left
    assert method.memory.real_slots() == []


# --- what an event looks at --------------------------------------------------------------------------------------


def test_matching_sees_the_queue_the_past_and_the_class() -> None:
    """First task: no relation term. Later: m = min(10, old summaries), raw; the label is the order of arrival."""
    calls: list[tuple[int, int, int | None, int]] = []

    def spy(syn: Tensor, real: Tensor, past: Tensor | None, label: int, helper: nn.Module, **options: Any) -> Tensor:
        calls.append((len(syn), len(real), None if past is None else len(past), label))
        return matching_loss(syn, real, past, label, helper, **options)

    method = ssd(SSDConfig(queue=3, interval=2, helper_width=4, mem_sim_num=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emi_bench.methods.ssd.matching_loss", spy)
        feed(method, (3, 1), 5)
        assert calls == [(3, 6, None, 1), (3, 6, None, 0)] * 2  # sorted classes 1, 3; class 3 arrived first
        method.end_task()
        calls.clear()
        feed(method, (0, 2), 5)
        assert calls == [(3, 6, 4, 2), (3, 6, 4, 3)] * 2


def test_real_and_summarised_images_are_augmented_in_one_call() -> None:
    sizes = []

    def view(x: Tensor, draws: Draws) -> Tensor:
        sizes.append(len(x))
        return x

    method = ssd(match_view=view)
    feed(method, (0, 1), 5)
    assert sizes == [6 + 3, 6 + 3] * 2  # 3 batches of 2 images a class, and the summary


def test_summaries_get_closer_to_the_real_images() -> None:
    """With a fixed helper and a fixed queue the matching loss falls."""
    torch.manual_seed(1)
    net = ConvNet(4, image_size=8, width=8)
    config = SSDConfig(queue=1, interval=1, images_per_class=2, helper_lr=0, lr_img=0.05)
    method = ssd(config, helper=lambda k: net)
    x, y = batch((0, 1), 0, n=12)
    method.observe(x, y)
    losses = [method.observe(x, y)["match"].item() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


# --- the helper --------------------------------------------------------------------------------------------------


def test_helper_is_new_at_every_task_with_the_classes_until_then() -> None:
    asked: list[int] = []

    def helper(k: int) -> nn.Module:
        asked.append(k)
        return ConvNet(k, image_size=8, width=2)

    method = ssd(helper=helper)
    feed(method, (0, 1), 3)
    method.end_task()
    assert method.task is None
    feed(method, (3, 2), 2)
    assert asked == [2, 4]


def test_default_helper_depends_on_the_draws_alone() -> None:
    one, other = ssd(draws=Draws(5)), ssd(draws=Draws(5))
    torch.manual_seed(77)
    a, b, c = one.make_helper(2), other.make_helper(2), other.make_helper(2)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(next(b.parameters()), next(c.parameters()))
    assert isinstance(a, ConvNet)


@pytest.mark.parametrize(("stream", "real", "steps"), [(10, 10, 2), (10, 9, 1), (4, 10, 1), (4, 5, 0), (1, 0, 0)])
def test_helper_steps_are_whole_chunks(stream: int, real: int, steps: int) -> None:
    """The batch and up to 10 real images, shuffled, in chunks of 10; the remainder is dropped."""
    seen: list[Tensor] = []

    class Spy(ConvNet):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return super().forward(x)

    method = ssd(helper=lambda k: Spy(k, image_size=8, width=2), memory=40)
    method.task = method.start_task()
    if real:
        method.memory.images_per_class = 0
        method.memory.update(torch.rand(real + 3, 3, 8, 8), torch.zeros(real + 3, dtype=torch.int64), Draws(0))
        method.seen = [0]
    order = list(range(stream + real))[::-1]
    method.draws = ScriptedDraws({"helper.replay": [list(range(real))], "helper.order": [order]})
    images = torch.rand(stream, 3, 8, 8)
    method.seen = [0]
    losses = method.train_helper(images, [0] * stream)
    assert [len(x) for x in seen] == [10] * steps
    assert ("helper" in losses) == (steps > 0)
    if steps:
        everything = torch.cat([images, method.memory.images[:real]])
        assert torch.equal(torch.cat(seen), everything[order][: 10 * steps])


def test_matching_leaves_the_helper_untouched() -> None:
    method = ssd(SSDConfig(queue=3, interval=2, helper_width=4, helper_lr=0))
    feed(method, (0, 1), 4)
    assert method.task is not None
    before = [p.clone() for p in method.task.helper.parameters()]
    assert "match" in method.observe(*batch((0, 1), 4))
    assert all(torch.equal(p, q) for p, q in zip(before, method.task.helper.parameters(), strict=True))


# --- the learner and the config ----------------------------------------------------------------------------------


def test_first_batch_trains_no_learner_but_the_helper() -> None:
    method = ssd(SSDConfig(queue=3, interval=2, helper_width=4, helper_batch=4))
    before = [p.clone() for p in method.net.parameters()]
    losses = method.observe(*batch((0, 1), 0))
    assert set(losses) == {"helper"}
    assert all(torch.equal(p, q) for p, q in zip(before, method.net.parameters(), strict=True))
    assert set(method.observe(*batch((0, 1), 1))) == {"supcon", "helper"}


def test_draws_of_a_step_are_the_documented_ones() -> None:
    method = ssd(memory=8)
    feed(method, (0, 1), 2)
    method.draws = ScriptedDraws(
        {
            "replay": [[0, 1, 2, 3, 4, 5]],
            "reservoir": [[-1, -1, -1, -1]],
            "helper.replay": [[]],
            "helper.order": [[3, 1, 0, 2]],
        }
    )
    method.observe(*batch((0, 1), 2))
    assert not method.draws.left()
    method.draws = ScriptedDraws({"reservoir": [[-1, -1]], "summary": [[4], [5]]}, fallback=Draws(0))
    method.end_task()
    method.observe(*batch((2, 0, 3, 0), 3))
    assert method.memory.summary_slots(2) == [4]


def test_everything_runs_in_float64() -> None:
    method = ssd(dtype=torch.float64, draws=Draws(3))
    for i in range(5):
        x, y = batch((0, 1), i)
        losses = method.observe(x.double() / 255, y)
    assert method.memory.images.dtype == torch.float64
    assert all(loss.dtype == torch.float64 for loss in losses.values())
    assert method.predict(batch((0, 1), 9)[0]).shape == (4,)


@pytest.mark.parametrize(
    ("memory", "classes", "ipc", "lr_img"), [(20, 20, 1, 2e-4), (500, 100, 5, 1e-3), (1000, 100, 10, 4e-3)]
)
def test_constants_follow_the_memory(memory: int, classes: int, ipc: int, lr_img: float) -> None:
    config = SSDConfig().resolve(problem(memory=memory, n_classes=classes))
    assert (config.images_per_class, config.lr_img, config.queue) == (ipc, lr_img, 64)
    assert config.resolve(problem(memory=memory, n_classes=classes)) == config


def test_more_summaries_than_slots_are_refused() -> None:
    with pytest.raises(UserError, match="need 16 slots, the memory has 12") as caught:
        SSDConfig(images_per_class=4).resolve(problem())
    assert "images_per_class to 3" in caught.value.hint


def test_state_round_trips_at_a_task_boundary() -> None:
    one, other = ssd(), ssd()
    feed(one, (0, 1), 6)
    one.end_task()
    other.load_state_dict(one.state_dict())
    assert feed(one, (2, 3), 6, start=20) == feed(other, (2, 3), 6, start=20)
    assert torch.equal(one.memory.images, other.memory.images)
    assert all(torch.equal(p, q) for p, q in zip(one.net.parameters(), other.net.parameters(), strict=True))
