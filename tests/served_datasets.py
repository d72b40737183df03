"""Small datasets in several files on a server, and a registry that names them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ann_benchmarks.data.datasets import aliases, registered
from ann_benchmarks.distance import pair_distances

from .file_server import FileServer

RANDOM = np.random.default_rng(3)
TRAIN = RANDOM.standard_normal((500, 6)).astype(np.float32)
TEST = RANDOM.standard_normal((12, 6)).astype(np.float32)


def distances_of(metric: str, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    pairs = [pair_distances(metric, np.tile(query, (len(train), 1)), train) for query in test]
    return np.array(pairs)


def write_bin(path: Path, vectors: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(np.array(vectors.shape, "<u4").tobytes() + vectors.tobytes())


def write_truth(path: Path, metric: str, train: np.ndarray, test: np.ndarray) -> None:
    """As big-ann-benchmarks has it: distances squared, equal ones in any order."""
    every = distances_of(metric, train, test)
    ids = np.argsort(every, axis=1)[:, :20]
    found = np.take_along_axis(every, ids, 1) ** 2
    shape = np.array(ids.shape, "<u4").tobytes()
    path.write_bytes(shape + ids.astype("<i4").tobytes() + found.astype("<f4").tobytes())


def write_shards(folder: Path, numbers: list[np.ndarray]) -> None:
    """Shards whose ids are `numbers`, with the neighbours by id."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = np.concatenate(numbers)
    start = 0
    for i, part in enumerate(numbers):
        rows = [list(map(float, row)) for row in TRAIN[start : start + len(part)]]
        start += len(part)
        pq.write_table(pa.table({"id": part, "emb": rows}), folder / f"train-{i:02d}.parquet")
    pq.write_table(
        pa.table({"id": 3 * np.arange(12)[::-1], "emb": [list(map(float, q)) for q in TEST]}),
        folder / "test.parquet",
    )
    nearest = np.argsort(distances_of("angular", TRAIN, TEST), axis=1)[:, :20]
    table = pa.table({"id": 3 * np.arange(12)[::-1], "neighbors_id": [list(ids[row]) for row in nearest]})
    pq.write_table(table, folder / "neighbors.parquet")


@contextmanager
def served(
    remote: Path,
    describe: Callable[[Callable[[str], str]], dict[str, Any]],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FileServer]:
    """Serve the files in `remote`, and be in an empty folder below `folder`.

    `describe` is given what makes the path of a file its address, and returns the content of a registry.
    """
    running = FileServer()
    files = (path for path in remote.rglob("*") if path.is_file())
    running.bodies = {str(path.relative_to(remote)): path.read_bytes() for path in files}
    registry, home = folder / "registry.yml", folder / "home"
    registry.write_text(yaml.safe_dump(describe(running.url)))
    monkeypatch.setattr("ann_benchmarks.data.datasets.registry._REGISTRY", registry)
    home.mkdir()
    monkeypatch.chdir(home)
    registered.cache_clear()
    aliases.cache_clear()
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()
        registered.cache_clear()
        aliases.cache_clear()
