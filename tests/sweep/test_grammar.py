from __future__ import annotations

from pathlib import Path

import pytest

from emi_bench.errors import UserError
from emi_bench.sweep import grammar
from emi_bench.sweep.check import read_sweep
from emi_bench.sweep.grammar import RunGroup, read_grammar
from emi_bench.sweep.plan import expand
from tests.test_architecture import imports

LEAST = """name: mine
methods: [er]
settings:
  - dataset: cifar10
    memory: [200, 500]
seeds: 10
"""


def test_the_least_file_is_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LEAST)
    sweep, _ = read_sweep(file)
    assert (sweep.name, sweep.seeds, sweep.settings[0].memory) == ("mine", list(range(10)), [200, 500])


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ("seeds: 10", "sedes: 10", "6: sedes", "Did you mean seeds"),
        ("seeds: 10", "seeds: []", "6: seeds", "nothing to run"),
        ("seeds: 10", "seeds: 0", "6: seeds", "nothing to run"),
        ("seeds: 10", "seeds: 10000000", "6: seeds", "more than a sweep may have, 10000"),
        ("seeds: 10", f"seeds: [{2**70}]", "6: seeds[0]", str(2**63 - 1)),
        ("[200, 500]", "1000000000", "5: settings[0].memory", "10000000"),
        ("[er]", f"[{{name: er, grid: {{lr: {[*range(99)]}, momentum: {[*range(99)]}}}}}]", "", "196020 runs"),
        ("seeds: 10", "seeds: [0, -1]", "6: seeds[1]", "-1"),
        ("seeds: 10\n", "", "seeds is missing", "seeds 0 to n-1"),
        ("[er]", "[]", "2: methods", "nothing to run"),
        ("[er]", "[emy]", "2: methods[0]", "Did you mean"),
        ("[er]", "\n  - name: er\n    config: {lrr: 1}", "4: methods[0].config.lrr", "Did you mean lr?"),
        ("[er]", "\n  - name: er\n    variants: {a: {lrr: 1}}", "methods[0].variants.a.lrr", "Did you mean lr?"),
        ("[er]", "\n  - {nmae: er}", "methods[0].nmae", "Did you mean name?"),
        ("cifar10", "cifar11", "4: settings[0].dataset", "Did you mean cifar10"),
        ("[200, 500]", "[200, -5]", "5: settings[0].memory[1]", "-5"),
        ("[200, 500]", "[]", "5: settings[0].memory", "empty"),
        ("seeds: 10", "seeds: 1\nresources: {gpu: 2}", "resources.gpu", "share from 0 to 1"),
        ("seeds: 10", "seeds: 1\nprotocol: {widht: 3}", "protocol.widht", "Did you mean width?"),
        ("seeds: 10", "seeds: 1\nname: twice", "7", "twice"),
        ("seeds: 10", "seeds: [1", "mine.yaml", "expected"),
        ("[er]", "\n  - name: er\n    grid: {lr: []}", "4: methods[0].grid.lr", "is empty"),
        ("[er]", "\n  - name: er\n    grid: {lr: []}", "4: methods[0].grid.lr", "one variant for every combination"),
        ("seeds: 10", "seeds: 1\nreport: {tables: [one]}", "report.tables[0]", "one"),
        ("500]", "500]\n    methods: [err]", "6: settings[0].methods[0]", "not among this sweep's methods"),
        ("500]", "500]\n    methods: [err]", "6: settings[0].methods[0]", "Did you mean er?"),
        ("500]", "500]\n    methods: []", "6: settings[0].methods", "Names among the sweep's methods"),
        ("500]", "500]\n    methods: [1]", "6: settings[0].methods[0]", "valid string"),
        ("500]", "500]\n    seeds: []", "6: settings[0].seeds", "in place of the sweep's"),
        ("500]", "500]\n    seeds: [-3]", "6: settings[0].seeds[0]", "-3"),
    ],
)
def test_a_mistake_is_answered_with_file_line_key_and_a_way_out(
    tmp_path: Path, old: str, new: str, where: str, says: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LEAST.replace(old, new))
    with pytest.raises(UserError) as told:
        read_sweep(file)
    assert str(file) in str(told.value)
    assert where in str(told.value)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("old", "new", "where", "says", "hint"),
    [
        (
            "500]",
            "500]\n  - dataset: cifar100\n    memory: 50",
            "7: settings[1].memory",
            "100 classes",
            "`memory: 100`",
        ),
        ("[200, 500]", "[200, 5]", "5: settings[0].memory[1]", "memory 5 is smaller", "`memory: 10` or more"),
        ("[200, 500]", "0", "5: settings[0].memory", "er needs a memory", "`memory: 200`"),
        (
            "500]",
            "500]\n  - dataset: cifar100\n    memory: 500\n    protocol: {n_tasks: 3}",
            "8: settings[1].protocol.n_tasks",
            "do not split into 3",
            "`protocol: {n_tasks: N}`",
        ),
        ("seeds: 10", "seeds: 1\nprotocol: {n_tasks: 3}", "7: protocol.n_tasks", "into 3", "`protocol: {n_tasks: N}`"),
        ("seeds: 10", "seeds: 1\nprotocol: {batch: 0}", "7: protocol.batch", "greater than", "Stream samples"),
        ("[er]", "[er, {name: scr, config: {lr: fast}}]", "2: methods[1]", "lr", "Learning rate"),
    ],
)
def test_a_mistake_that_only_the_plan_sees_is_placed_where_it_stands(
    tmp_path: Path, old: str, new: str, where: str, says: str, hint: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LEAST.replace(old, new))
    with pytest.raises(UserError) as told:
        expand(*read_sweep(file))
    assert told.value.message.startswith(f"{file}:{where}: ")
    assert says in told.value.message
    assert hint in told.value.hint
    assert "--" not in str(told.value).replace(str(tmp_path), "")


def parts_of(file: Path) -> list[RunGroup]:
    return list(read_grammar(file)[0].parts())


def test_what_a_file_names_is_told_without_methods_and_data(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = LEAST.replace("[er]", "[unheard_of, {name: er, config: {lr: 1}, grid: {momentum: [0, 0.5]}}]")
    file.write_text(text.replace("seeds: 10", "seeds: [3, 4]\nprotocol: {batch: 5}").replace("cifar10", "npz:gone.npz"))
    first, *_, last = parts = parts_of(file)
    assert len(parts) == 3
    assert (first.method, first.variant, first.constants) == ("unheard_of", "", {})
    assert (last.method, last.variant, last.constants) == ("er", "momentum=0.5", {"lr": 1, "momentum": 0.5})
    assert {p.dataset for p in parts} == {"npz:gone.npz"}
    assert all((p.memories, p.seeds, p.protocol) == ((200, 500), (3, 4), {"batch": 5}) for p in parts)


def test_a_setting_may_have_methods_and_seeds_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    second = "500]\n  - dataset: cifar100\n    memory: 500\n    methods: [scr]\n    seeds: 2"
    file.write_text(
        LEAST.replace("[er]", "[er, {name: scr, variants: {default: {}, slow: {lr: 0.01}}}]").replace("500]", second)
    )
    runs = [(p.dataset, p.method, p.variant, m, s) for p in parts_of(file) for m in p.memories for s in p.seeds]
    assert runs[-4:] == [("cifar100", "scr", variant, 500, seed) for variant in ("", "slow") for seed in (0, 1)]
    assert len(runs) == 3 * 2 * 10 + 4
    assert {(c.spec.dataset, c.spec.method, c.spec.seed) for c in expand(*read_sweep(file))[0]} == {
        (dataset, method, seed) for dataset, method, _, _, seed in runs
    }


def test_only_runs_that_a_setting_has_are_counted_against_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    many = f"[er, {{name: scr, grid: {{lr: {[*range(99)]}, temperature: {[*range(99)]}}}}}]"
    file.write_text(LEAST.replace("[er]", many).replace("500]", "500]\n    methods: [er]"))
    assert [(p.memories, len(p.seeds)) for p in parts_of(file)] == [((200, 500), 10)]


def test_the_grammar_needs_neither_torch_nor_ray() -> None:
    allowed = tuple(f"emi_bench.{m}" for m in ("sweep.grammar", "errors", "registry", "problem", "seeds"))
    for file in Path(grammar.__file__).parent.glob("*.py"):
        told = imports(file)
        assert not {name.partition(".")[0] for name in told} & {"torch", "ray"}
        assert all(name.startswith(allowed) for name in told if name.startswith("emi_bench"))


def test_yaml_cannot_run_code(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(LEAST.replace("mine", "!!python/object/apply:os.getcwd []"))
    with pytest.raises(UserError, match="constructor"):
        read_sweep(file)


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(LEAST)
    with pytest.raises(UserError, match=r"mine\.yaml"):
        read_sweep(tmp_path / "min.yaml")


def test_resources_come_from_method_then_setting_then_sweep(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = LEAST.replace("[er]", "[er, {name: scr, resources: {gpu: 1}}]").replace(
        "memory: [200, 500]", "memory: 200\n    resources: {cpu: 2, custom: {big: 1}}"
    )
    file.write_text(text + "resources: {gpu: 0.5, cpu: 1}\n")
    cells, _ = expand(*read_sweep(file))
    er = next(c.resources for c in cells if c.spec.method == "er")
    scr = next(c.resources for c in cells if c.spec.method == "scr")
    assert (er.cpu, er.gpu, er.custom) == (2, 0.5, {"big": 1})
    assert (scr.cpu, scr.gpu) == (2, 1)
