import gc
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import h5py
import numpy as np
import pytest

from ann_benchmarks.load import warmup

from .docker_engine import base_image, builder_turn, engine, plugins, tiny_image  # noqa: F401
from .kill_commands import make_workplace
from .plotting_data import trust
from .postgres_fixtures import (  # noqa: F401
    made_server,
    members_are_forks,
    new_folder,
    older_installations,
    own_database,
    plugin_server,
    server,
    server_folder,
)
from .programs import call_program, share_folder, temporary_folder, write_config
from .vchord_archives import old_vchord_server, vchord_server  # noqa: F401
from .vectorscale_wheel import vectorscale_server  # noqa: F401

ROOT = Path(__file__).parent.parent
# Tests start hundreds of processes, each of which would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
share_folder()  # before there are others

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores


def pytest_collection_modifyitems(items):
    """Thorough tests take long, so they begin first: workers end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("thorough") is None)


def pytest_collection_finish():
    """Spare the collector what was imported: each measured run begins with a full collection."""
    gc.collect()
    gc.freeze()
    vars(gc)["unfreeze"] = lambda: None  # a measured run ends with it


@pytest.fixture(autouse=True)
def nothing_is_measured_again(monkeypatch):
    """Others take CPU while tests run: a run of a test is one run, and no warning comes of them."""
    monkeypatch.setattr("ann_benchmarks.measure.observed.read_cpu", lambda servers: None)


@pytest.fixture(autouse=True)
def warmups_are_short(monkeypatch):
    """Without a number of queries, a warm-up takes a tenth of its time, here and in forks."""
    for name in ("PIECE_SECONDS", "LEAST_SECONDS", "MOST_LEAST_SECONDS"):
        monkeypatch.setattr(warmup, name, getattr(warmup, name) / 10)


def make_dataset(
    name="tiny",
    metric="euclidean",
    rows=200,
    dimension=8,
    queries=20,
    neighbours=10,
    folder=Path("data"),
    **storage,
):
    """Write a small dataset in ann-benchmarks' format; `storage` is for the HDF5 dataset of the rows."""
    random = np.random.default_rng(1)
    train = random.normal(size=(rows, dimension)).astype(np.float32)
    test = random.normal(size=(queries, dimension)).astype(np.float32)
    a, b = test.astype(float)[:, None], train.astype(float)[None]
    inner = (a * b).sum(-1)
    distances = {
        "euclidean": np.sqrt(((a - b) ** 2).sum(-1)),
        "angular": 1 - inner / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1),
        "ip": -inner,
    }[metric]
    neighbors = np.argsort(distances, axis=1)[:, :neighbours]
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs.update(type="dense", distance=metric, dimension=dimension, point_type="float")
        file.create_dataset("train", data=train, **storage)
        file["test"] = test
        file["neighbors"] = neighbors.astype(np.int32)
        file["distances"] = np.take_along_axis(distances, neighbors, axis=1).astype(np.float32)
    trust(path)
    return path


@dataclass
class Workspace:
    """A current folder with a dataset `tiny` and, in plugins/, algorithms made for a test."""

    path: Path

    def add_plugin(self, name, body="pass", run_group=None, **keys):
        """Write a plug-in whose class `Plugin` has the given methods; return its folder."""
        folder = self.path / "plugins" / name
        folder.mkdir(parents=True)
        head = """\
            import multiprocessing.util, os, signal, sys, time
            from pathlib import Path
            import numpy as np
            from ann_benchmarks.algorithms.base.module import BaseANN

            class Plugin(BaseANN):
                def __init__(self, *arguments): pass
            """
        (folder / "module.py").write_text(
            dedent(head) + "".join(f"    {x}\n" for x in dedent(body).splitlines())
        )
        write_config(folder, name, **{"run_groups": {"all": run_group or {"args": []}}, **keys})
        return folder

    def command(self, *arguments):
        return [
            *(
                sys.executable,
                str(ROOT / "run.py"),
                "--local",
                "--definitions",
                "plugins",
                "--dataset",
                "tiny",
            ),
            *("--runs", "1", *arguments),
        ]

    @property
    def environment(self):
        return {**os.environ, "PYTHONPATH": str(self.path), "OMP_NUM_THREADS": "1"}

    def run(self, *arguments):
        return call_program("run.py", *self.command(*arguments)[2:], env=self.environment)

    def start(self, *arguments):
        return subprocess.Popen(
            self.command("--warmup", "5", *arguments),
            cwd=self.path,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def results(self):
        return sorted(
            str(path.relative_to("results")) for path in Path("results").rglob("*") if path.is_file()
        )


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty folder as the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_dataset()
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def workplace():
    """A folder with a dataset, results and a plug-in, in which every command has something to do."""
    with temporary_folder() as folder:
        make_workplace(folder)
        yield folder
