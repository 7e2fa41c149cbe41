"""The page: complete without a network, small, and alive in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from emi_bench.report.axes import papers_rows
from emi_bench.report.build import build_from
from emi_bench.report.options import ReportOptions
from emi_bench.report.page.data import coarse, lower, pack
from tests.report.synthetic import digits_runs, synthetic_runs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def paper_page(paper_runs, tmp_path_factory) -> Path:
    return build_from(
        paper_runs, tmp_path_factory.mktemp("paper"), ReportOptions(only=("html",), paper_grid=True)
    ).open_first


@pytest.fixture(scope="module")
def digits_page(tmp_path_factory) -> Path:
    return build_from(
        digits_runs(), tmp_path_factory.mktemp("digits"), ReportOptions(only=("figures", "html"))
    ).open_first


def data_of(page: Path) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.S)
    assert found
    return json.loads(found[1])


def unpack(text: str) -> np.ndarray:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    codes = np.array([alphabet.index(c) for c in text]).reshape(-1, 2)
    values = codes[:, 0] * 64 + codes[:, 1]
    return np.where(values == 4095, np.nan, values / 4000)


def test_packing_keeps_accuracies_to_a_fortieth_of_a_percent():
    x = np.append(np.random.default_rng(0).random(50), [0, 1, np.nan])
    assert unpack(pack(x)) == pytest.approx(x, abs=1 / 8000, nan_ok=True)


def test_large_matrices_are_shown_in_block_means():
    a = np.where(np.tril(np.ones((100, 100), dtype=bool)), np.arange(100)[:, None] / 100.0, np.nan)
    small = coarse(a, 20)
    assert small.shape == (20, 20)
    assert small[3, 1] == pytest.approx(np.mean([0.15, 0.16, 0.17, 0.18, 0.19]))
    assert np.isnan(small[0, 5])
    assert len(lower(small)) == 210


def test_the_page_needs_no_network(paper_page, digits_page):
    for page in (paper_page, digits_page):
        text = page.read_text("utf-8")
        assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", text)
        assert "@import" not in text
        assert not re.findall(r"url\((?!data:|#)", text)


def test_the_page_holds_the_matrix_config_and_command_of_every_run(paper_runs, paper_page):
    data = data_of(paper_page)
    held = {r[0]: (c, r) for c in data["cells"] for r in c["runs"]}
    assert len(held) == len(paper_runs)
    for _, run in paper_runs.iterrows():
        cell, row = held[run["run_id"][:16]]
        triangle = run["matrix"][np.tril_indices(run["n_tasks"])]
        assert unpack(row[9]) == pytest.approx(triangle, abs=1 / 8000, nan_ok=True)
        assert data["configs"][row[10]] == run["config"]
        assert data["commands"][row[12]].replace("{seed}", str(row[1])) == run["command"]
        assert row[2] == pytest.approx(run["average_accuracy"] * 100, abs=1e-3)
        assert cell["n"] <= cell["expected"]


def test_missing_partial_and_done_are_marked(paper_page):
    text = paper_page.read_text("utf-8")
    coverage = text[text.index('class="coverage"') : text.index("</table>", text.index('class="coverage"'))]
    scr = re.search(r'<th scope="row">SCR</th>(.*?)</tr>', coverage)
    assert scr
    assert '<td class="missing">0/10</td>' in scr[1]
    assert '<td class="partial">4/10</td>' in scr[1]


def test_text_from_runs_cannot_break_out_of_the_page(tmp_path):
    runs = digits_runs(range(2), ("er",)).assign(device="</script><script>alert(1)</script>")
    runs["method"] = "<b>mine</b>"
    text = build_from(runs, tmp_path).open_first.read_text("utf-8")
    assert "<script>alert" not in text
    assert "<b>mine" not in text


def test_an_empty_store_gives_a_page_that_says_what_to_run(tmp_path):
    page = build_from(digits_runs(range(1)).iloc[:0], tmp_path).open_first
    assert "emi-bench sweep demo" in page.read_text("utf-8")


@pytest.mark.slow
def test_the_full_grid_stays_under_three_megabytes(tmp_path):
    page = build_from(synthetic_runs(), tmp_path).open_first
    assert page.stat().st_size < 3_000_000


PROBE = """<script>
const errors = [];
window.addEventListener("error", (e) => errors.push(e.message));
console.error = (...a) => errors.push(a.join(" "));
</script>"""
ACT = """<script>
const out = {};
const dialog = document.getElementById("detail");
const target = document.querySelector("tr.ours td:has(button.cell)");
location.hash = `#${target.id}`;
window.dispatchEvent(new HashChangeEvent("hashchange"));
out.linked = dialog.open;
dialog.close();
document.querySelector("tr.ours button.cell").click();
out.address = location.hash;
out.id = target.id;
out.open = dialog.open;
out.title = document.getElementById("detail-title").textContent;
out.canvases = dialog.querySelectorAll("canvas").length;
out.painted = [...dialog.querySelector("canvas").getContext("2d").getImageData(0, 0, 1, 1).data];
out.lines = dialog.querySelectorAll("polyline").length;
out.command = dialog.querySelector("code").textContent;
const code = dialog.querySelector("details code");
code.closest("details").open = true;
out.clipped = code.getBoundingClientRect().right > code.closest("td").getBoundingClientRect().right + 1;
dialog.close();
location.hash = "#compare";
window.dispatchEvent(new HashChangeEvent("hashchange"));
out.unfolded = document.getElementById("compare").open;
out.pair = document.querySelector("#pair td:nth-child(2)").textContent;
out.pairMaps = document.querySelectorAll("#pair canvas").length;
out.column = document.getElementById("pick-column").value;
out.picked = [document.getElementById("pick-a").value, document.getElementById("pick-b").value];
out.copies = [...document.querySelectorAll("button[data-copy]")].filter((b) => b.checkVisibility()).length;
out.texts = JSON.parse(document.getElementById("data").textContent).texts[0].acc;
out.first = [...document.querySelectorAll("section, details.fold")].map((s) => s.id);
out.night = getComputedStyle(document.querySelector("svg text") ?? document.body).fill;
document.querySelector("input[value=forg]").click();
out.metric = document.querySelector("table.results").dataset.metric;
out.shown = getComputedStyle(document.querySelector("tr.ours .m-forg")).display;
out.hidden = getComputedStyle(document.querySelector("tr.ours .m-acc")).display;
document.querySelector("button.sort[data-column='0']").click();
const rows = [...document.querySelectorAll("table.results")[0].tBodies[0].rows];
const column = rows.map((r) => r.cells[1].dataset.forg).filter((v) => v !== "").map(Number);
out.sorted = column.every((v, i) => i === 0 || column[i - 1] <= v);
document.querySelector("input[value=acc]").click();
const now = [...document.querySelectorAll("table.results")[0].tBodies[0].rows];
const again = now.map((r) => r.cells[1].dataset.acc).filter((v) => v !== "").map(Number);
out.follows = again.every((v, i) => i === 0 || again[i - 1] >= v);
document.querySelector("input[value=forg]").click();
document.querySelector("button.sort[data-column='-1']").click();
const first = document.querySelector("tr.ours button.cell");
first.focus();
first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
out.moved = document.activeElement !== first && document.activeElement.classList.contains("cell");
out.wide = document.documentElement.scrollWidth - window.innerWidth;
out.errors = errors;
document.body.setAttribute("data-probe", JSON.stringify(out));
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize(("which", "width"), [("paper", 1200), ("paper", 500), ("digits", 390)])
def test_in_a_browser_a_click_opens_a_cell_and_nothing_complains(
    paper_runs, paper_page, digits_page, tmp_path, which, width
):
    page = paper_page if which == "paper" else digits_page
    probed = tmp_path / "probe.html"
    text = page.read_text("utf-8").replace("<head>", "<head>" + PROBE, 1)
    probed.write_text(text.replace("</body>", ACT + "</body>"), encoding="utf-8")
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
               f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
               probed.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-probe="([^"]*)"', done.stdout)
    assert found, done.stderr[-2000:]
    out = json.loads(html.unescape(found[1]))
    assert out["errors"] == []
    assert out["open"] is True
    assert "EMI" in out["title"]
    assert out["canvases"] >= 3
    assert out["painted"][3] == 255
    assert out["lines"] >= 3
    assert out["command"].startswith("emi-bench run --method emi")
    assert out["metric"] == "forg"
    assert out["shown"] != "none" == out["hidden"]
    assert out["sorted"] is True
    assert out["follows"] is True
    assert out["linked"] is True
    assert out["address"] == f"#{out['id']}"
    assert re.fullmatch(r"(cifar10|digits)-(200|50)-emi", out["id"])
    assert out["unfolded"] is True
    assert out["pairMaps"] == 3
    assert out["clipped"] is False
    assert out["texts"]["latex"].startswith("% ")
    assert out["texts"]["csv"].startswith("method,")
    assert out["copies"] >= 2
    assert out["first"][0] == "results"
    values = (paper_runs if which == "paper" else digits_runs()).query("variant == '' and memory > 0")
    names = {row.title: row.method for row in papers_rows()}
    memory, dataset = (200, "cifar10") if which == "paper" else (50, "digits")
    here = values[(values["memory"] == memory) & (values["dataset"] == dataset)]
    wide = here.pivot_table(index="seed", columns="method", values="average_accuracy") * 100
    a, b = (wide[names[title]] for title in out["picked"])
    assert float(out["pair"]) == pytest.approx((a - b).dropna().mean(), abs=0.006)
    assert out["moved"] is True
    assert out["wide"] <= 0
