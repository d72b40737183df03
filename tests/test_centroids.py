"""Centroids into a file, by `python -m algorithms.clustering`."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering.__main__ import main
from ann_benchmarks.common.cli import run_command

from .conftest import make_dataset

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("centroids")
    for name, metric in (("near", "euclidean"), ("turned", "angular")):
        make_dataset(name, metric, 3000, 12, queries=20, neighbours=20, folder=folder / "data")
    return folder


def made(folder: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "algorithms.clustering", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
        (["--lists", "40", "--memory", "20k", "-o", "x.npy"], "give a sampling_factor of at most 10"),
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


def test_nothing_is_left_where_the_file_cannot_be_written(
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
    assert not list(Path().glob("*full.npy*"))
