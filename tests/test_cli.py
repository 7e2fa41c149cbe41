"""The command as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import emi_bench
from emi_bench.cli import app as cli
from emi_bench.cli.single import parse_settings
from emi_bench.errors import UserError
from emi_bench.run.resolve import resolve
from emi_bench.store import Store
from emi_bench.store.leases import Lease

QUICK = ["--set", "width=2", "--set", "batch=20", "--set", "replay_batch=10"]
FEW = ["--set", "train_per_class=20", "--set", "test_per_class=10"]


def invoke(*words: str) -> str:
    """Run the command in this process; its output."""
    result = CliRunner().invoke(cli.app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def er(results: Path, *more: str) -> list[str]:
    words = ["run", "--method", "er", "--dataset", "digits", "--memory", "30", "--results", str(results)]
    return [*words, *QUICK, *FEW, *more]


def test_a_run_leaves_a_parquet_file_that_pandas_reads(tmp_path: Path) -> None:
    out = invoke(*er(tmp_path))
    assert "average accuracy" in out
    assert "task 5/5 done" in out
    frame = pd.read_parquet(tmp_path)
    assert set(frame.method) == {"er"}
    assert len(frame) == 15
    assert "already done" in invoke(*er(tmp_path))


def test_quiet_prints_the_path_and_nothing_else(tmp_path: Path) -> None:
    out = invoke(*er(tmp_path, "-q", "--seed", "3"))
    assert Path(out.strip()).exists()


def test_own_data_runs_from_its_file(own_npz: Path, tmp_path: Path) -> None:
    invoke(
        *("run", "--method", "finetune", "--dataset", f"npz:{own_npz}", "--results", str(tmp_path / "r")),
        *("--set", "protocol.n_tasks=2", "--set", "width=2", "-q"),
    )
    runs = emi_bench.load_runs(tmp_path / "r")
    assert runs.n_tasks.tolist() == [2]
    assert runs.dataset[0].startswith("mine-")


def test_methods_lists_names_and_json_has_every_constant() -> None:
    assert "er" in invoke("methods")
    rows = json.loads(invoke("methods", "--json"))
    assert {"finetune", "offline", "er"} <= {row["name"] for row in rows}
    one = next(row for row in rows if row["name"] == "er")
    assert one["constants"]["lr"]["default"] == 0.1
    assert all(c["about"] for row in rows for c in row["constants"].values())


def test_datasets_says_what_is_there(tmp_path: Path) -> None:
    rows = json.loads(invoke("datasets", "--json", "--data-root", str(tmp_path)))
    found = {row["name"]: row["found"] for row in rows}
    assert found["digits"]
    assert found["cifar10"] is None
    assert "tinyimagenet" in invoke("datasets", "--data-root", str(tmp_path))


def test_verify_and_doctor_give_a_verdict(tmp_path: Path) -> None:
    assert "digits: ok" in invoke("data", "verify", "digits")
    result = CliRunner().invoke(cli.app, ["data", "verify", "cifar10", "--data-root", str(tmp_path)])
    assert result.exit_code == 1
    assert "NOT OK" in result.output
    out = invoke("doctor", "--results", str(tmp_path), "--data-root", str(tmp_path))
    assert "verdict" in out
    assert "ready" in out


def test_doctor_fails_where_results_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli.app, ["doctor", "--results", str(tmp_path / "file" / "results")])
    assert result.exit_code == 1
    assert "not ready" in result.output


def test_version() -> None:
    assert invoke("--version").strip() == f"emi-bench {emi_bench.__version__}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "erm", "--dataset", "digits", "--memory", "50"], "Did you mean er"),
        (["--method", "er", "--dataset", "digit", "--memory", "50"], "Did you mean digits"),
        (["--method", "er", "--dataset", "digits"], "er needs a memory"),
        (["--method", "er", "--dataset", "digits", "--memory", "5"], "smaller than the 10 classes"),
        (["--method", "er", "--dataset", "digits", "--memory", "50", "--set", "lr"], "key=value"),
        (["--method", "er", "--dataset", "digits", "--memory", "50", "--set", "lr=[1"], "is not a value"),
        (["--method", "er", "--dataset", "digits", "--memory", "50", "--device", "cuda:77"], "CUDA"),
        (["--method", "er", "--dataset", "digits", "--memory", "50", "--device", "gpu"], "is not a device"),
        (["--method", "er", "--dataset", "cifar10", "--memory", "50"], "emi-bench data download cifar10"),
        (["--method", "er", "--dataset", "digits", "--memory", "50", "--plugin", "absent.py"], "no plugin file"),
    ],
)
def test_bad_input_ends_with_what_to_do(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["emi-bench", "run", *words, "--results", str(tmp_path / "r"), "--data-root", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err
    assert not list((tmp_path / "r").rglob("*.parquet"))


def test_results_that_cannot_be_written_are_said_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write results"):
        invoke(*er(tmp_path / "file" / "results"))


def test_a_run_whose_loss_explodes_fails_with_its_step_and_leaves_no_result(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not finite at step") as caught:
        invoke(*er(tmp_path, "--set", "lr=1e30"))
    assert "--set lr" in caught.value.hint
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_run_that_is_at_work_elsewhere_is_left_alone(tmp_path: Path) -> None:
    config, protocol = parse_settings("er", [*QUICK, *FEW][1::2])
    spec = resolve("er", "digits", memory=30, config=config, protocol=protocol)
    with Lease(Store(tmp_path).files, spec.run_id, owner="another"):
        with pytest.raises(UserError, match="is being run"):
            invoke(*er(tmp_path))
        assert not list(tmp_path.rglob("*.parquet"))
    invoke(*er(tmp_path))
    assert not list((tmp_path / "_claims").iterdir())


def test_ctrl_c_keeps_finished_tasks_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """A real process and a real signal; the resumed matrix is the undisturbed one, bit for bit."""
    slowly = ["--set", "batch=4", "--set", "lr=0.02"]
    words = er(tmp_path / "r", *slowly)
    command = [sys.executable, "-m", "emi_bench.cli.app", *words]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background is born deaf to Ctrl-C
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, preexec_fn=heard
    )
    checkpoints = tmp_path / "r" / "_checkpoints"
    deadline = time.monotonic() + 120
    while not (checkpoints.exists() and list(checkpoints.glob("*.pt"))):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "interrupted: tasks 1-" in out
    assert "emi-bench run --method er" in out
    assert "going on after" in invoke(*words)
    invoke(*er(tmp_path / "undisturbed", *slowly))
    resumed, whole = (emi_bench.load_runs(tmp_path / name).matrix[0] for name in ("r", "undisturbed"))
    np.testing.assert_array_equal(resumed, whole)
    assert not list(checkpoints.glob("*.pt"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom emi_bench.cli import main\nsys.argv = ['emi-bench', 'plan', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('torch', 'ray', 'pandas', 'pyarrow', 'matplotlib') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
