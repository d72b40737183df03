"""Centroids into a file, by `python -m algorithms.clustering`."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering.__main__ import main
from ann_benchmarks.common.cli import run_command

from .conftest import make_dataset
from .programs import until

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("centroids")
    for name, metric in (("near", "euclidean"), ("turned", "angular")):
        make_dataset(name, metric, 3000, 12, queries=20, neighbours=20, folder=folder / "data")
    return folder


def started(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "algorithms.clustering", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def made(folder: Path, *options: str) -> str:
    with started(folder, *options) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    return out


def test_a_file_of_two_levels_and_what_is_known_of_it(folder: Path):
    out = made(folder, "--dataset", "turned", "--lists", "5,40", "--sampling-factor", "50", "-o", "two.npy")
    assert "dataset turned: 3,000 x 12, angular" in out
    assert "2,000 rows clustered by cpu" in out
    assert "use arg_groups: [{centroids: two.npy, lists: [[5, 40]]}]" in out
    centroids = np.load(folder / "two.npy")
    assert centroids.shape == (45, 12) and centroids.dtype == np.float32
    assert np.linalg.norm(centroids, axis=1) == pytest.approx(np.ones(45), rel=1e-5)
    about = json.loads((folder / "two.npy.json").read_text())
    assert about["lists"] == [5, 40] and about["spherical"] and about["unit_rows"]
    assert about["sample_rows"] == 2000 and about["seconds"] > 0 and about["inertia"] > 0
    assert sorted(path.name for path in folder.iterdir() if "two" in path.name) == ["two.npy", "two.npy.json"]


def test_the_same_command_resumes_after_a_kill(folder: Path):
    # A sample on disk is kept as soon as it is drawn.
    options = ("--dataset", "near", "--lists", "300", "--iterations", "400", "--memory", "1")
    made(folder, *options, "-o", "whole.npy")
    state = folder / ".cut.npy.state"
    process = started(folder, *options, "-o", "cut.npy")
    until(lambda: process.poll() is not None or list(state.glob("*.npz")))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (folder / "cut.npy").exists()
    made(folder, *options, "-o", "cut.npy")
    assert np.array_equal(np.load(folder / "cut.npy"), np.load(folder / "whole.npy"))
    assert not state.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lists", "40", "-o", "x.bin"], "x.bin: the file of centroids is an NPY file"),
        (["--lists", "4000", "-o", "x.npy"], "4,000 lists for 3,000 rows: give fewer"),
        (["--lists", "40,5", "-o", "x.npy"], "'40,5': give LISTS or COARSE,LISTS"),
        (["--lists", "1,2,3", "-o", "x.npy"], "'1,2,3': give LISTS or COARSE,LISTS"),
        (["--lists", "some", "-o", "x.npy"], "'some' is not a whole number of at least 1"),
        (["--lists", "40", "--device", "gpu", "-o", "x.npy"], "needs PyTorch, which is missing"),
        (["--lists", "40", "--seed", "-1", "-o", "x.npy"], "'-1' is not a whole number of at least 0"),
        (["--lists", "40", "--memory", "much", "-o", "x.npy"], "'much' must be a size"),
        (["--lists", "40", "-o", "there.npy"], "there.npy exists already; --force replaces it"),
        (["--lists", "40", "-o", "there.npy/x.npy"], "there.npy"),
    ],
)
def test_a_refusal_is_one_line(
    folder: Path,
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    (folder / "there.npy").write_text("mine")
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(SystemExit) as ended:
        run_command(lambda: main(["--dataset", "near", *options]))
    assert ended.value.code == (2 if "'" in message else 1)
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert (folder / "there.npy").read_text() == "mine"
    assert not list(folder.glob("*x.npy*"))


def test_nothing_is_lost_where_the_file_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(folder)
    options = ["--dataset", "near", "--lists", "50", "-o", "full.npy"]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full, pytest.raises(SystemExit) as ended:
        full.setattr(np, "save", refuse)
        run_command(lambda: main(options))
    assert ended.value.code == 1
    assert "full.npy" in capsys.readouterr().err
    assert list((folder / ".full.npy.state").iterdir())
    assert main(options) == 0
    assert np.load("full.npy").shape == (50, 12)
    assert not Path(".full.npy.state").exists()
