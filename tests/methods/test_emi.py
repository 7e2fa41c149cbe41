"""EMI: its recorded trace, every switch against a step written out by hand, and EMI without its parts is OCM."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from emi_bench.draws import Draws
from emi_bench.methods import emi
from emi_bench.methods.emi import EMI, EMIConfig
from emi_bench.methods.mutual_information import MutualInformationConfig
from emi_bench.methods.ocm import OCM
from emi_bench.problem import Problem
from tests import toy_world as toy
from tests.golden_files import golden
from tests.methods.emi_by_hand import Step, step_by_hand
from tests.methods.test_ocm import digits_batch
from tests.methods.toy_steps import INSTRUMENTS, assert_replays, dual_net, plain_net

TOY = {"coefficient": 0.5, "n_proto": 3}
OFF = {"dualnet": False, "dmi": False, "rmi": False, "smi": False}
AS_OCM = OFF | {"first_task": "ocm", "ocm_logit_mse": True, "replay_class_cap": 7}
DIGITS = Problem("digits", n_classes=10, n_tasks=5, image_size=8, memory=30, replay_batch=8, width=2)

SWITCHES: dict[str, dict[str, Any]] = {
    "default": {},
    "sum_log": {"mi_reduction": "sum_log"},
    "no_pair": {"dmi_denominator": "no_pair"},
    "alpha": {"alpha": 0.6, "alpha_b": 0.9},
    "alpha_zero": {"alpha": 0.0, "alpha_b": 0.0},
    "cos_threshold": {"dmi_threshold": "cos", "alpha": 0.6, "alpha_b": 0.9},
    "pairs_with_self": {"dmi_pairs": "with_self", "alpha": 0.6, "alpha_b": 0.9},
    "pairs_per_class": {"dmi_pairs": "per_class", "alpha": 0.6, "alpha_b": 0.9},
    "rows_rot16": {"dmi_rows": "rot16"},
    "rows_rot16_per_class": {"dmi_rows": "rot16", "dmi_pairs": "per_class", "alpha": 0.6, "alpha_b": 0.9},
    "rows_rot16_mlp": {"dmi_rows": "rot16", "slow_head": "mlp"},
    "drop_empty_anchors": {"empty_anchor": "drop"},
    "no_renorm": {"proto_renorm": False},
    "detach_proto": {"rmi_detach_proto": True},
    "smi_tau": {"smi_tau": 0.5},
    "ope": {"smi_form": "ope", "smi_tau": 0.5},
    "ope_no_renorm": {"smi_form": "ope", "proto_renorm": False},
    "plain_ce": {"ce_view": "plain"},
    "first_task_ocm": {"first_task": "ocm"},
    "logit_mse": {"ocm_logit_mse": True},
    "logit_mse_plain": {"ocm_logit_mse": True, "ce_view": "plain"},
    "detach_slow": {"detach_slow": True},
    "detach_slow_no_dmi": {"detach_slow": True, "dmi": False},
    "mlp_head": {"slow_head": "mlp"},
    "same_level": {"fast_net": "same_level"},
    "class_cap": {"replay_class_cap": 2},
    "teacher_eval": {"teacher_bn": "eval", "ocm_logit_mse": True},
    "weights": {"loss_weights": {"dmi": 0.5, "rmi": 2, "smi": 0.25, "ce": 3, "ocm": 0.1}, "ocm_logit_mse": True},
    "tau": {"tau": 0.2},
    "n_proto": {"n_proto": 1},
    # the rows of the ablation table
    "row1": AS_OCM,
    "row2_dualnet": {"dmi": False, "rmi": False, "smi": False},
    "row3_dmi": {"rmi": False, "smi": False},
    "row4_rmi": {"dmi": False, "smi": False},
    "row5_dmi_rmi": {"smi": False},
    "row6_dmi_smi": {"rmi": False},
}


class PlanDraws(Draws):
    """The choices of the toy world's plan, cut to what is asked for."""

    def __init__(self) -> None:
        super().__init__(0)
        self.plan: dict[str, Any] = {}

    def pick(self, what: str, candidates: Any, k: int) -> Tensor:
        if what == "replay":
            return torch.tensor(self.plan["replay_slots"][:k], dtype=torch.int64)
        return torch.tensor(self.plan["proto_slots"][what.split(".")[1]][:k])

    def integers(self, what: str, high: int, *shape: int) -> Tensor:
        if what == "reservoir":
            return torch.tensor(self.plan["reservoir_slots"])
        assert high == 16 - 12
        return torch.tensor(self.plan[what])


def toy_emi(draws: Draws | None = None, **changes: Any) -> EMI:
    config = EMIConfig(**(TOY | changes))
    if config.dualnet:
        kind = "dual_mlp" if config.slow_head == "mlp" else "dual_same_level" if config.fast_net != "chain" else "dual"
        net: Any = dual_net(kind, detach_slow=config.detach_slow)
    else:
        net = plain_net()
    return EMI(config, toy.problem(), net=net, memory=toy.memory(), draws=draws or PlanDraws(), view=toy.view)


def planned(method: EMI, plan: dict[str, Any], x: Tensor, y: Tensor) -> Step:
    """The step as the specification reads it, from the method's memory and the plan."""
    c, memory = method.config, method.memory
    replays = c.first_task == "algorithm1" or plan["task"] > 0
    seen = {*method.seen, *y.tolist()}
    k = 6 if c.replay_class_cap is None else min(6, c.replay_class_cap * len(seen))
    slots = torch.tensor(plan["replay_slots"][:k] if replays else [], dtype=torch.int64)
    yb = memory.label_list(slots)
    stored = {
        label: memory.images[plan["proto_slots"][str(label)][: c.n_proto]]
        for label in {*y.tolist(), *yb}
        if memory.slots_of(label)
    }
    starts = (plan["slice_stream"], plan["slice_replay"])
    images = memory.images[slots].double()
    return Step(x, y.tolist(), images, yb, stored, *starts, plan["task"] == 0, method.old_classes)


def run_planned(method: EMI, steps: int = 11, fill: tuple[int, ...] = ()) -> list[dict[str, float]]:
    out = []
    for plan, x, y, last in list(toy.batches())[:steps]:
        method.draws.plan = plan
        if plan["step"] in fill:
            method.memory.update(x, y, method.draws)
            continue
        out.append({name: value.item() for name, value in method.observe(x, y).items()})
        if last:
            method.end_task()
    return out


def test_step_trace_is_replayed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    tables: list[Any] = []
    monkeypatch.setattr(emi, "dmi", lambda *a, real=emi.dmi, **k: (found.append(real(*a, **k)), found[-1])[1])
    real_table = EMI.prototypes
    monkeypatch.setattr(EMI, "prototypes", lambda self, b: (tables.append(real_table(self, b)), tables[-1])[1])

    def details(step: dict[str, Any]) -> None:
        sides = [side for side in ("stream", "replay") if f"dmi_{side}" in step["detail"]]
        for side, mine in zip(sides, found, strict=True):
            recorded = step["detail"][f"dmi_{side}"]
            assert [row.nonzero()[:, 0].tolist() for row in mine.members] == recorded["S"]
            if recorded["mu"] is not None and recorded["mu"] != float("inf"):
                assert mine.log_mu.exp().item() == pytest.approx(recorded["mu"], rel=1e-5)
        for side in tables[0].values():
            for c, p, p_view in zip(side.classes.tolist(), side.p, side.p_view, strict=True):
                expected = step["detail"]["prototypes"][str(c)]
                torch.testing.assert_close(torch.stack([p, p_view]).detach(), torch.tensor(expected).double())
        found.clear()
        tables.clear()

    assert_replays(
        golden("steps/emi_default"),
        lambda draws: EMI(
            EMIConfig(**TOY), toy.problem(), net=dual_net(), memory=toy.memory(), draws=draws, view=toy.view
        ),
        details,
    )


#: Batches of the plan that only go to the memory: as steps 2 and 3 have nothing that others have not, 0 has no replay
#: and 5 no prototypes of its classes, which is another matter only for the switches in WHOLE.
FILL, MORE = (2, 3), (0, 2, 3, 5)
WHOLE = {
    "default",
    "alpha",
    "drop_empty_anchors",
    "no_renorm",
    "ope",
    "first_task_ocm",
    "logit_mse",
    "class_cap",
    "row1",
}
#: Two switches at once, each of which has a course of its own.
PAIRS = {"rows_rot16_per_class", "rows_rot16_mlp", "ope_no_renorm", "logit_mse_plain", "detach_slow_no_dmi"}
SLOW = [pytest.mark.slow]
COURSES = [pytest.param(n, MORE, id=n, marks=SLOW if n in PAIRS else []) for n in SWITCHES if n not in WHOLE]
COURSES += [pytest.param(n, FILL, id=f"{n}-whole", marks=[] if n in WHOLE else SLOW) for n in SWITCHES]


@cache
def course(name: str, fill: tuple[int, ...]) -> list[dict[str, float]]:
    return run_planned(toy_emi(**SWITCHES[name]), 7, fill)


#: With which course a switch's is compared where that is not the default's.
OVER = {"cos_threshold": "alpha", "logit_mse_plain": "logit_mse", "ope": "smi_tau", "rows_rot16_mlp": "mlp_head"}
OVER |= dict.fromkeys(("pairs_with_self", "pairs_per_class"), "alpha")
ALIKE = {"default", "alpha_zero", "teacher_eval"}  # in these steps


@pytest.mark.parametrize(("name", "fill"), COURSES)
def test_every_switch_equals_the_step_written_out_by_hand_and_changes_the_course(
    name: str, fill: tuple[int, ...]
) -> None:
    method, twin = toy_emi(**SWITCHES[name]), toy_emi(**SWITCHES[name])
    net, teacher = twin.net, twin.teacher
    seen = []
    for plan, x, y, last in list(toy.batches())[:7]:
        method.draws.plan = plan
        if plan["step"] in fill:
            method.memory.update(x, y, method.draws)
            continue
        net.load_state_dict(method.net.state_dict())
        teacher.load_state_dict(method.teacher.state_dict())
        net.zero_grad()
        expected, total = step_by_hand(net, teacher, method.config, planned(method, plan, x, y))
        total.backward()
        losses = method.observe(x, y)
        seen.append(losses)
        assert losses.keys() - INSTRUMENTS == expected.keys()
        for term, value in expected.items():
            assert losses[term].item() == pytest.approx(value.item(), rel=1e-8, abs=1e-10), (plan["step"], term)
        for (key, mine), literal in zip(method.net.named_parameters(), net.parameters(), strict=True):
            if literal.grad is None:
                assert mine.grad is None, key
            else:
                assert mine.grad is not None, key
                scale = literal.grad.abs().max().item()
                torch.testing.assert_close(mine.grad, literal.grad, rtol=1e-7, atol=1e-9 * max(scale, 1), msg=key)
        for key, buffer in method.net.named_buffers():
            torch.testing.assert_close(buffer, net.get_buffer(key), rtol=1e-9, atol=1e-12, msg=key)
        if last:
            method.end_task()
    taken = [{term: value.item() for term, value in losses.items()} for losses in seen]
    assert name in ALIKE or taken != course(OVER.get(name, "default"), fill)


def test_emi_without_its_parts_is_ocm_bit_for_bit() -> None:
    """Real views, uint8 images, a task change; losses, weights, statistics, past model, memory and draws."""
    as_ocm = EMI.build(EMIConfig(**AS_OCM), DIGITS, weight_seed=3, draws=Draws(5))
    ocm = OCM.build(MutualInformationConfig(), DIGITS, weight_seed=3, draws=Draws(5))
    for step in range(7):
        classes = ((0, 1), (4, 2), (9, 5))[step // 3]
        x, y = digits_batch(10, classes, step)
        assert as_ocm.observe(x, y) == ocm.observe(x, y)
        if step % 3 == 2:
            as_ocm.end_task()
            ocm.end_task()
    mine, theirs = as_ocm.state_dict(), ocm.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        if isinstance(value, Tensor):
            assert torch.equal(mine[name], value), name
    assert as_ocm.draws.state() == ocm.draws.state()
    x, _ = digits_batch(20, (0, 1), 99)
    assert torch.equal(as_ocm.predict(x), ocm.predict(x))


def test_parts_that_no_loss_uses_are_not_built() -> None:
    def names(**changes: Any) -> set[str]:
        net = EMI.make_net(EMIConfig(**changes).resolve(DIGITS), DIGITS)
        return {name for name, _ in net.named_children()} | {
            name for name, _ in net.named_modules() if "fast.f" in name
        }

    assert "slow_proj" in names()
    assert "slow_proj" not in names(dmi=False)
    assert {"fast.f1", "fast.f4"} <= names()
    assert "fast.f1" not in names(fast_net="same_level")
    assert names(**OFF) == {"slow", "linear", "proj"}


def test_a_seed_gives_the_same_weights_whatever_the_switches() -> None:
    ocm = OCM.build(MutualInformationConfig(), DIGITS, weight_seed=1, draws=Draws(0)).net.state_dict()
    full = EMI.build(EMIConfig(), DIGITS, weight_seed=1, draws=Draws(0)).net.state_dict()
    part = EMI.build(EMIConfig(dmi=False), DIGITS, weight_seed=1, draws=Draws(0)).net.state_dict()
    assert all(torch.equal(full[name], value) for name, value in (ocm | part).items())
    assert full.keys() - part.keys() == {"slow_proj.weight", "slow_proj.bias"}


def test_dmi_needs_the_dualnet() -> None:
    with pytest.raises(ValidationError, match="switch dmi off too"):
        EMIConfig(dualnet=False)


def test_first_step_has_no_replay_and_no_prototype() -> None:
    (first,) = run_planned(toy_emi(), 1)
    assert first.keys() - INSTRUMENTS == {"ntx_n", "dmi_stream", "rmi_stream", "smi_stream", "ce"}
    assert (first["rmi_stream"], first["smi_stream"]) == (0, 0)


def test_prototypes_are_forwarded_only_when_a_loss_wants_them() -> None:
    def rows(**changes: Any) -> list[int]:
        method = toy_emi(**changes)
        sizes: list[int] = []
        method.net.proj.register_forward_pre_hook(lambda m, args: sizes.append(len(args[0])))
        run_planned(method, 2)
        return sizes

    # step 0: nothing stored yet; step 1: 4 stream and 4 replayed images, 4 stored images and their views
    assert rows() == [32 * 4, 32 * 8, 2 * 4]
    assert rows(smi=False) == rows(rmi=False) == rows()
    assert rows(rmi=False, smi=False) == [32 * 4, 32 * 8]


def test_heads_run_only_on_the_rows_that_need_them() -> None:
    method = toy_emi()
    rows: dict[str, list[int]] = {"slow_proj": [], "linear": [], "slow": []}
    for name, sizes in rows.items():
        method.net.get_submodule(name).register_forward_pre_hook(lambda m, a, s=sizes: s.append(len(a[0])))
    run_planned(method, 2)
    assert rows["slow_proj"] == [2 * 4, 2 * 8]
    assert rows["linear"] == [4, 4]


def test_the_share_of_other_class_members_is_recorded() -> None:
    shares = [terms["dmi_other_share"] for terms in run_planned(toy_emi(alpha=0.9, alpha_b=0.9))]
    assert all(0 <= share < 1 for share in shares)
    assert max(shares) > 0
    assert "dmi_other_share" not in run_planned(toy_emi(dmi=False), 1)[0]


def test_an_evaluated_teacher_uses_its_running_statistics() -> None:
    method = toy_emi(teacher_bn="eval")
    run_planned(method, 5)
    method.predict(toy.images([100]))
    assert method.net.training
    assert not method.teacher.training
    before = {k: v.clone() for k, v in method.teacher.state_dict().items()}
    method.draws.plan = toy.PLAN[5]
    _, x, y, _ = list(toy.batches())[5]
    method.observe(x, y)
    assert all(torch.equal(v, before[k]) for k, v in method.teacher.state_dict().items())


def test_recomputing_the_joint_forward_changes_nothing() -> None:
    plain, recomputed = toy_emi(), toy_emi(checkpoint_joint=True)
    assert run_planned(plain, 7) == run_planned(recomputed, 7)
    for (name, a), b in zip(plain.net.state_dict().items(), recomputed.net.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_recomputing_is_not_part_of_a_runs_identity() -> None:
    assert "checkpoint_joint" in EMIConfig.cosmetic


def test_bfloat16_autocast_stays_close_to_float32() -> None:
    def run(enabled: bool) -> list[dict[str, Tensor]]:
        method = EMI.build(EMIConfig(), DIGITS, weight_seed=0, draws=Draws(0))
        out = []
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            for i, classes in enumerate([(0, 1), (0, 1), (2, 3)]):
                out.append(method.observe(*digits_batch(10, classes, i)))
                if i:
                    method.end_task()
        return out

    for half, full in zip(run(True), run(False), strict=True):
        for name, value in full.items():
            assert half[name].dtype == torch.float32
            assert half[name].isfinite()
            if name.startswith(("ntx", "ce")):  # S_i, and with it DMI, may differ by a member
                assert half[name].item() == pytest.approx(value.item(), rel=0.1, abs=0.1), name


def test_config_survives_json() -> None:
    config = EMIConfig(loss_weights={"dmi": 0.5})
    assert EMIConfig(**config.model_dump(mode="json")) == config
    assert config.loss_weights.of("dmi_replay") == 0.5
    assert config.loss_weights.of("ntx_pre") == config.loss_weights.of("mse") == config.loss_weights.ocm
