"""Bundles for tests of the checker: measured by run.py with a plug-in of a few lines, then tampered with."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.results.attributes import ALL
from ann_benchmarks.submission.contents import readme
from ann_benchmarks.submission.files import files_in, sha256_of
from ann_benchmarks.submission.manifest import MANIFEST, BundledFile, read_manifest, write_manifest

from .programs import ROOT, call_program, made_once, write_config

DATASET, COUNT, QUERIES, ROWS = "tiny", 10, 100, 1000
TARGET = 0.5
CONTACT = "jane@example.org"
CLIENTS = (1, 2)
SHARES = (300, 800)  # thousandths of the rows that a query looks at
PLUGIN = """
from types import SimpleNamespace
import numpy as np
from ann_benchmarks.algorithms.base.module import BaseANN

class Plugin(BaseANN):
    "Looks at the first rows alone, which gives any recall that a test needs."
    def __init__(self, metric, layers): self.metric, self.layers, self.is_cold = metric, layers, False
    def fit(self, X): self.rows = np.asarray(X)
    def set_query_arguments(self, share):
        self.seen = self.rows[: len(self.rows) * share // 1000]
        self.name = f"part(layers={self.layers}, share={share})"
    def search_range(self, n):
        return SimpleNamespace(parameter="share", values=range(100, 1001, 100), arguments=lambda one: [one])
    def cool(self): self.is_cold = True
    def query(self, q, n):
        squares = ((self.seen - q) ** 2).sum(axis=1)
        return np.argsort(squares, kind="stable")[:n]
    def set_row_attributes(self, attributes): self.values = attributes["uniform"].values
    def filtered_query(self, q, filter, n):
        rows = np.flatnonzero(self.values[: len(self.seen)] < filter.predicates[0].value)
        return rows[np.argsort(((self.seen[rows] - q) ** 2).sum(axis=1), kind="stable")[:n]]
    def get_additional(self):
        cold = {"caches_dropped": True} if self.is_cold else {}
        return {"part_version": "1.2.3", "given_settings": {"depth": "3"}, **cold}
    def __str__(self): return self.name
"""


def measure(folder: Path) -> None:
    """Measure a curve by one and by two clients in a folder, three runs of each point, and bundle it."""
    prepare(folder)
    words = ["--local", "--definitions", "plugins", "--dataset", DATASET, "--runs", "3", "--duration", "0.2"]
    clients = ["--clients", ",".join(map(str, CLIENTS)), "--warmup", "10"]
    run(folder, "run.py", *words, *clients)
    make_quiet(folder)
    how = ["--target-recall", TARGET, "--division", "published", "--contact", CONTACT]
    run(folder, "report.py", "--bundle", "bundle", *how)


def prepare(folder: Path) -> None:
    """Write a dataset and the plug-in."""
    from .conftest import make_dataset  # which imports what tests share, and so this file

    make_dataset(DATASET, rows=ROWS, queries=QUERIES, neighbours=20, folder=folder / "data")
    groups = {"all": {"args": [[8]], "query_args": [[*SHARES]]}}
    write_config(folder / "plugins" / "part", "part", base_args=["@metric"], run_groups=groups)
    (folder / "plugins/part/module.py").write_text(PLUGIN)


def run(folder: Path, program: str, *words: object) -> None:
    """Run one of the project's programs in a folder."""
    done = call_program(program, *words, cwd=folder, env=_environment(folder))
    assert done.returncode == 0, done.stderr


def make_quiet(folder: Path) -> None:
    """Take out of all results what other tests have disturbed, which take CPU meanwhile."""
    for path in folder.glob("results/*/*/*/*.hdf5"):
        number = len(attributes(path)["run_started"])
        set_attributes(path, run_others_cpu=[0.0] * number, runs_disagree=False, clients_were_limit=False)


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{ROOT}:{folder}"}


def measured() -> Path:
    """Return a folder in which was measured, once for all tests."""
    return made_once(measure)


def copied_bundle(folder: Path) -> Path:
    """Return an honest bundle of its own, to be tampered with."""
    return Path(shutil.copytree(measured() / "bundle", folder / "bundle"))


def point_files(folder: Path, series: str = "part-c1") -> list[Path]:
    """Return the result files of a series in the order of their recalls."""
    paths = (folder / "results" / DATASET / str(COUNT) / series).glob("*.hdf5")
    return sorted(paths, key=lambda path: int(path.stem.rpartition("_")[2]))


def attributes(path: Path) -> dict[str, Any]:
    """Return the attributes of a result file as JSON holds them."""
    with h5py.File(path) as file:
        return dict(json.loads(file.attrs[ALL]))


def remake(folder: Path, **changes: Any) -> None:
    """Write the manifest again with the hashes of what lies there, as one who tampers would; with changes."""
    manifest = replace(read_manifest(folder), **changes)
    if changes:
        (folder / "README.md").write_text(readme(manifest))
    files = {
        name: BundledFile(sha256_of(folder / name), (folder / name).stat().st_size)
        for name in files_in(folder)
        if name != MANIFEST
    }
    write_manifest(folder, replace(manifest, files=files))


def set_attributes(path: Path, in_text: bool = True, **values: Any) -> None:
    """Change attributes of a result in both of their places, or in one; None deletes one."""
    path.chmod(0o644)
    with h5py.File(path, "r+") as file:
        text = json.loads(file.attrs[ALL])
        for name, value in values.items():
            if name in file.attrs:
                del file.attrs[name]
            text.pop(name, None)
            if value is not None:
                file.attrs[name] = text[name] = value
        if in_text:
            file.attrs[ALL] = json.dumps(text)


def set_arrays(path: Path, **changes: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace arrays of an HDF5 file by what functions make of them."""
    with h5py.File(path, "r+") as file:
        for name, change in changes.items():
            values = change(file[name][()])
            del file[name]
            file[name] = values
