"""A metric is declared once: tables, captions and page follow."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.report.synthetic import digits_runs

CODE = """
import pickle, sys
from emi_bench.report import axes
axes.PRINTED += (axes.Metric("bwt", "Backward transfer", "bwt", True, key="bwt", short="Transfer", words="After minus right after."),)
from emi_bench.report.build import build_from
from emi_bench.report.options import ReportOptions
build_from(pickle.load(open("runs", "rb")), "out", ReportOptions(only=("tables", "html")))
"""  # noqa: E501


def test_a_metric_among_the_printed_has_its_table_and_its_place_on_the_page(tmp_path):
    runs = digits_runs()
    runs.to_pickle(tmp_path / "runs")
    done = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    table = (tmp_path / "out/tables/bwt.md").read_text()
    er = runs[(runs["method"] == "er") & (runs["memory"] == 50)]["bwt"]
    assert f"{er.mean() * 100:.1f}" in table
    assert "Backward transfer on digits (%, higher is better). After minus right after." in table
    page = (tmp_path / "out/index.html").read_text()
    assert re.search(r'name="metric" value="bwt" data-higher="1"> Transfer', page)
    assert ".results[data-metric=bwt] .m-bwt { display: inline; }" in page
    assert '{"key":"bwt","name":"bwt","title":"Backward transfer","short":"Transfer","main":true}' in page
