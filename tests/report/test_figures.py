"""Figures: the data behind each equals what pandas computes, and the same input gives the same bytes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from emi_bench.facts import Facts
from emi_bench.report.axes import Row, papers_rows
from emi_bench.report.evidence import Evidence, evidence_of
from emi_bench.report.figures import Drawing, all_figures, save
from emi_bench.report.figures.canvas import band, look, new_figure
from emi_bench.report.figures.curves import incremental
from emi_bench.report.figures.features import on_circle
from emi_bench.report.figures.matrices import heat_maps
from emi_bench.report.figures.studies import ablation, readings_figure
from emi_bench.report.figures.tradeoffs import cost
from emi_bench.report.grid import Grid
from emi_bench.report.options import ReportOptions
from emi_bench.report.page.pictures import night, night_style, picture_of
from emi_bench.report.planned import read_planned
from tests.report.synthetic import Cell, grid_cells, run_row, study_cells, synthetic_runs
from tests.report.synthetic_store import synthetic_features


@pytest.fixture(scope="module")
def drawn(paper_evidence: Evidence) -> dict[str, Drawing]:
    return {d.name: d for d in all_figures(paper_evidence)}


@pytest.fixture(scope="module")
def drawn_digits(digits_grid: Grid) -> dict[str, Drawing]:
    return {d.name: d for d in all_figures(Evidence(digits_grid, features=partial(synthetic_features, n=60)))}


def frame(drawing: Drawing) -> pd.DataFrame:
    return pd.DataFrame(list(drawing.data))


def test_everything_the_store_can_serve_is_drawn(drawn, drawn_digits):
    wanted = {"incremental_accuracy", "memory", "cost", "differences", "forest_accuracy", "forest_forgetting",
              "ablation", "alpha", "prototypes", "readings", "matrices_cifar10_t5_m200"}  # fmt: skip
    assert wanted <= set(drawn)
    wanted = {"incremental_accuracy", "memory", "cost", "differences", "overall", "matrices_digits_t5_m50",
              "kde_digits_t5_m50", "tsne_digits_t5_m100"}  # fmt: skip
    assert wanted <= set(drawn_digits)


def test_the_curve_is_the_mean_over_the_tasks_seen(drawn, paper_rows):
    data = frame(drawn["incremental_accuracy"])
    default = paper_rows[paper_rows["variant"] == ""]
    per_run = default.groupby(["dataset", "memory", "method", "after_task", "run_id"])["accuracy"].mean() * 100
    expected = per_run.groupby(["dataset", "memory", "method", "after_task"]).agg(["mean", "std"])
    checked = 0
    for _, r in data[~data["method"].isin(["finetune", "offline"])].iterrows():
        mean, std = expected.loc[(r["dataset"], r["memory"], r["method"], r["after_task"])]
        assert (r["mean"], r["std"]) == pytest.approx((mean, std))
        checked += 1
    assert checked > 200


def test_the_heat_map_is_the_mean_matrix(drawn, paper_rows):
    data = frame(drawn["matrices_cifar100_t10_m1000"])
    rows = paper_rows[
        (paper_rows["dataset"] == "cifar100") & (paper_rows["memory"] == 1000) & (paper_rows["variant"] == "")
    ]
    expected = rows.groupby(["method", "after_task", "task"])["accuracy"].mean() * 100
    mine = data[data["method"] != "finetune"].set_index(["method", "after_task", "task"])["mean"]
    assert len(mine) == 13 * 55
    assert mine.to_numpy() == pytest.approx(expected.loc[mine.index].to_numpy(), abs=1e-5)


def test_studies_carry_the_papers_value_beside_ours(drawn):
    alpha = frame(drawn["alpha"]).set_index(["alpha", "alpha_b"])
    assert alpha.loc[(0.1, 0.2), "paper"] == 32.5
    assert len(alpha) == 16
    assert set(frame(drawn["prototypes"])["n_proto"]) == {1, 3, 6, 9, 12}
    assert len(drawn["ablation"].data) == 7


def test_an_ablation_marks_the_rows_with_fewer_runs_than_planned():
    cells = [c for c in study_cells("digits", 5, 100) if c.variant.startswith("ablation")]
    runs = synthetic_runs([Cell("emi", "digits", 5, 100), *cells], range(3))
    lacking = runs[(runs["variant"] != "ablation4") | (runs["seed"] != 2)]

    def hollow(frame: pd.DataFrame) -> tuple[list[int], str]:
        (drawing,) = ablation(Evidence(Grid(frame)))
        (ax,) = drawing.figure.axes
        marks = [line for line in ax.lines if line.get_marker() == "o"]
        assert (len(marks), len(ax.patches)) == (7, 0)  # points: bars would need an axis from zero
        return [i for i, mark in enumerate(marks) if mark.get_fillstyle() == "none"], drawing.caption

    assert hollow(runs)[0] == []
    marked, caption = hollow(lacking)
    assert marked == [4]
    assert caption.endswith("Hollow marks have fewer runs than planned.")


def test_readings_are_paired_against_the_default(drawn, paper_runs):
    data = frame(drawn["readings"]).set_index("change")
    emi = paper_runs[(paper_runs["method"] == "emi") & (paper_runs["memory"] == 1000)].set_index(["variant", "seed"])
    changes = {
        "DualNet alone": "ablation1",
        "fast_net: same_level": "same-level",
        "dmi_threshold: cos": "threshold-cos",
    }
    assert list(data.index) == ["OCM", *changes]
    for change, variant in changes.items():
        gap = (emi.loc[variant, "average_accuracy"] - emi.loc["", "average_accuracy"]) * 100
        assert data.loc[change, "mean"] == pytest.approx(gap.mean())
    assert data["paper_minus_default"].iloc[0] == pytest.approx(32.5 - emi.loc["", "average_accuracy"].mean() * 100)


def test_one_figure_is_drawn_from_all_readings_sweeps(tmp_path):
    """SYNTHETIC runs of every cell of the three files: one panel a column, a row a reading, OCM, DualNet and the
    natural class order among them."""
    files = sorted((Path(__file__).parents[2] / "sweeps").glob("readings*.yaml"))
    assert len(files) == 3
    rows = []
    for part in (p for f in files for p in read_planned([f]).parts):
        changes = tuple((k, v) for k, v in part.constants.items())
        cell = Cell(part.method, part.dataset, {"cifar10": 5, "cifar100": 10}[part.dataset], part.memories[0],
                    part.variant, changes)  # fmt: skip
        for seed in part.seeds:
            row = run_row(cell, seed)
            order = part.protocol.get("class_order", "seed")  # two files share the default's runs
            rows.append(row | {"protocol": row["protocol"] | part.protocol, "run_id": f"{order}-{row['run_id']}"})
    (drawing,) = readings_figure(evidence_of(pd.DataFrame(rows), ReportOptions(sweeps=files)))
    assert [p.name for p in save(drawing, tmp_path)] == [f"readings.{k}" for k in ("pdf", "png", "csv")]
    data = pd.read_csv(tmp_path / "readings.csv")
    per_column = data.groupby("dataset")["change"].apply(list)
    assert set(per_column.index) == {"cifar10", "cifar100"}
    for changes in per_column:
        assert changes[:2] == ["OCM", "DualNet alone"]
        assert changes[-1] == "class_order: natural"
        assert len(changes) == 22
    assert (data["n"] == 3).all()


def test_a_method_looks_the_same_everywhere_and_apart_from_all_others():
    looks = [look(row) for row in papers_rows()]
    assert len({(k["color"], k["marker"], k["linestyle"]) for k in looks}) == 15
    assert len({k["marker"] for k in looks}) >= 13
    assert look(Row("emi"))["linewidth"] > look(Row("ocm"))["linewidth"]
    assert look(Row("my_method")) == look(Row("my_method"))


@pytest.mark.parametrize("method", ["gss", "gdumb", "my_method"])
def test_a_variant_keeps_its_methods_colour(method):
    assert look(Row(method, "slow"))["color"] == look(Row(method))["color"]


def test_a_method_of_the_users_own_has_the_colour_of_its_class():
    facts = Facts(title="Mine", colour="#123456", marker="s")
    assert (look(Row("mine", facts=facts))["color"], look(Row("mine", facts=facts))["marker"]) == ("#123456", "s")


def test_features_go_to_the_unit_circle():
    points = on_circle(np.random.default_rng(0).standard_normal((50, 8)))
    assert points.shape == (50, 2)
    assert np.linalg.norm(points, axis=1) == pytest.approx(np.ones(50))
    flat = np.array([[3.0, 4.0], [0.0, -2.0]])
    assert on_circle(flat) == pytest.approx(np.array([[0.6, 0.8], [0.0, -1.0]]))


def test_saved_figures_are_byte_identical_and_carry_type_42_fonts(digits_frame, tmp_path):
    def write(folder: Path) -> dict[str, bytes]:
        evidence = Evidence(Grid(digits_frame))
        for drawings in (incremental(evidence), heat_maps(evidence)):
            save(next(drawings), folder)
        return {p.name: p.read_bytes() for p in folder.iterdir()}

    one, two = write(tmp_path / "a"), write(tmp_path / "b")
    assert len(one) == 6
    assert one == two
    pdf = one["incremental_accuracy.pdf"]
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf


@pytest.mark.slow
def test_figures_do_not_depend_on_the_process(tmp_path):
    """Set and dict order of strings change with the hash seed; the bytes may not."""
    script = (
        "import sys, pathlib\nfrom tests.report.synthetic import digits_runs\n"
        "from emi_bench.report.build import build_from\n"
        "build_from(digits_runs(range(3)), pathlib.Path(sys.argv[1]))\n"
    )
    roots = []
    for seed in ("1", "2"):
        root = tmp_path / seed
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        subprocess.run([sys.executable, "-c", script, str(root)], check=True, env=env, timeout=240)
        roots.append({str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()})
    assert roots[0].keys() == roots[1].keys()
    assert [k for k in roots[0] if roots[0][k] != roots[1][k]] == []


def test_a_method_that_only_collects_in_its_steps_has_no_time_per_step():
    runs = synthetic_runs(grid_cells(["er", "gdumb"], [("digits", 5, 20)]), range(2))
    runs["losses"] = [[{}] * 5 if m == "gdumb" else [{"ce_stream": 1.0}] * 5 for m in runs["method"]]
    evidence = Evidence(Grid(runs))
    assert {r["method"] for d in cost(evidence) for r in d.data} == {"er"}
    assert {r["method"] for d in incremental(evidence) for r in d.data} == {"er", "gdumb"}


def test_the_pages_picture_is_text_in_the_pages_colours(drawn_digits):
    picture = picture_of(drawn_digits["incremental_accuracy"])
    assert "Tasks observed" in picture.svg
    assert "var(--fg)" in picture.svg
    assert "#d62718" in picture.svg
    assert not re.search(r"#000000|#ffffff", picture.svg)
    assert not re.search(r": #(?!fefefe|010101)", picture.svg)
    assert "--cd62718:" in night_style([picture])
    ids = re.findall(r'\bid="(.+?)"', picture.svg)
    assert len(set(ids)) == len(ids)
    assert all(i.startswith("incremental_accuracy-") for i in ids)
    assert set(re.findall(r"url\(#(.+?)\)", picture.svg)) <= set(ids)


def test_bands_stop_at_0_and_100():
    _, (ax,) = new_figure(3, 3)
    band(ax, [1, 2], np.array([[0.0, 100.0], [9.0, 80.0], [1.0, 99.0]]), "#123456")
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.0, 100.0)
    band(ax, [1, 2], np.array([[50.0, 50.0]]), "#123456")
    assert len(ax.collections) == 1


def test_at_night_every_methods_colour_stands_out_and_apart():
    """Contrast with the dark ground by WCAG, at least that of large text."""
    ground = 0.0082  # relative luminance of #14171a

    def luminance(colour: str) -> float:
        rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        return float(np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722))

    colours = [night(str(look(row)["color"])) for row in papers_rows()]
    assert all((luminance(c) + 0.05) / (ground + 0.05) > 4.5 for c in colours)
    assert len(set(colours)) == 15


def test_one_run_of_one_task_can_be_drawn(tmp_path):
    runs = synthetic_runs(grid_cells(["er"], [("digits", 1, 20)]), range(1))
    for drawing in all_figures(Evidence(Grid(runs))):
        save(drawing, tmp_path)
        assert drawing.data
    assert (tmp_path / "incremental_accuracy.pdf").exists()
