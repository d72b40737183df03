"""What runs without Linux' own calls, /proc and /sys; macOS itself is not tried (docs/machines.md)."""

import os
import sys
from pathlib import Path

import pytest

from .programs import ROOT, run_program, temporary_folder

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux stands in for macOS"),
]

IMPORTS = """
import importlib, pkgutil, sys
import ann_benchmarks, tiers
assert sys.platform == "darwin"
for package in (ann_benchmarks, tiers):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
            print(found.name)
"""


@pytest.fixture
def as_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests/as_macos"), str(ROOT)]))


def test_all_modules_are_imported(as_macos: None, tmp_path: Path):
    (tmp_path / "imports.py").write_text(IMPORTS)
    done = run_program(str(tmp_path / "imports.py"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 200


def test_an_index_is_measured(as_macos: None, workspace, monkeypatch: pytest.MonkeyPatch):
    measured = ("--local", "--algorithm", "pgvector_exact", "--dataset", "tiny", "--runs", "1")
    load = ("--clients", "2", "--duration", "0.5", "--warmup", "10")
    with temporary_folder() as folder:
        monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(folder / "server"))
        done = run_program("run.py", *measured, *load)
    assert (done.returncode, done.stderr) == (0, "")
    assert [name for name in workspace.results() if name.endswith(".hdf5")]


def test_tiers_are_refused(as_macos: None, workspace):
    done = run_program(
        "run.py", "--local", "--algorithm", "pgvector_exact", "--dataset", "tiny", "--tiers", "2:4"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: tiers need Linux")
    assert done.stderr.count("\n") == 1
