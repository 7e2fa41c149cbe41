"""The package as a user installs it: a wheel outside the checkout, and the tutorial, every command as printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIAL = BLOCKS.findall((ROOT / "docs" / "tutorial.md").read_text("utf-8"))


def environment(folder: Path) -> dict[str, str]:
    """An empty environment that sees the packages of this one, but not emi-bench: nothing is fetched for it."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for old in [*site.glob("setuptools*"), *site.glob("pkg_resources*")]:  # what venv brings is too old to build with
        shutil.rmtree(old)
    (site / "there.pth").write_text(sysconfig.get_path("purelib") + "\n")
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")}
    return env | {"PATH": path, "OMP_NUM_THREADS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}


def checkout(folder: Path) -> Path:
    """The files of the repository without what was built in it."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        if name.startswith(("emi_bench/", "sweeps/")) or "/" not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def shell(command: str, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(["bash", "-ec", command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_outside_the_checkout_runs_sweeps_plans_and_reports(tmp_path: Path) -> None:
    env, source, mine = environment(tmp_path / "env"), checkout(tmp_path / "source"), tmp_path / "mine"
    mine.mkdir()
    shell("pip wheel --quiet --no-deps --wheel-dir ../dist .", source, env)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {f"emi_bench/sweeps/{f.name}" for f in (ROOT / "sweeps").glob("*.yaml")}
    assert shipped | {"emi_bench/cli/templates/method.py.txt", "emi_bench/py.typed"} <= names
    shell(f"pip install --quiet --no-deps {wheel}", mine, env)
    assert str(tmp_path / "env") in shell("python -c 'import emi_bench; print(emi_bench.__file__)'", mine, env)
    shell("emi-bench run --method er --dataset digits --memory 30 --set width=2 --set batch=20", mine, env)
    assert "4 runs" in shell("emi-bench plan smoke", mine, env)
    shell("emi-bench sweep smoke", mine, env)
    told = shell("emi-bench report smoke", mine, env)
    assert "reports/latest/index.html" in told
    assert (mine / "reports" / "latest" / "index.html").is_file()


def test_the_tutorial_is_short_and_ends_with_code() -> None:
    commands = [line for kind, text in TUTORIAL if kind == "bash" for line in text.splitlines()]
    assert len(commands) <= 6
    assert commands[0] == "pip install ."
    assert [kind for kind, _ in TUTORIAL].count("python") == 1


@pytest.mark.slow
def test_the_tutorial_runs_as_printed(tmp_path: Path) -> None:
    """In an empty environment: the first block in a checkout, all others in a folder of one's own."""
    env, mine = environment(tmp_path / "env"), tmp_path / "mine"
    mine.mkdir()
    said = ""
    for number, (kind, text) in enumerate(TUTORIAL):
        if kind == "python":
            (mine / "block.py").write_text(text)
            said += shell("python block.py", mine, env)
            continue
        for line in text.splitlines():
            said += shell(line, checkout(tmp_path / "source") if number == 0 else mine, env)
    assert "nothing failed" in said
    assert re.search(r"my_idea +0\.\d+ +0\.\d+ +2", said)
    assert "<Result my_idea digits M=100 seed 0: average accuracy" in said
    table = (mine / "reports" / "latest" / "tables" / "accuracy.md").read_text()
    for title in ("ER", "SCR", "My idea"):
        assert f"| {title} " in table
    assert list((mine / "reports" / "latest" / "figures").glob("incremental*"))
