import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.ground_truth import SearchOptions, exact_neighbors, ground_truth, truth
from ann_benchmarks.data.vectors.rows import ArrayRows

from .conftest import ROOT

pytestmark = pytest.mark.thorough

SPAN = 2000
PROGRAM = f"""
import sys, time
import numpy as np
from pathlib import Path
from ann_benchmarks.data.ground_truth import SearchOptions, ground_truth, truth
truth.SPAN, truth.SHARE_OF_SAVING = {SPAN}, 1000
folder = Path(sys.argv[1])
train, queries = (np.load(folder / name, mmap_mode="r") for name in ("train.npy", "test.npy"))
print("ready", flush=True)
ids, distances = ground_truth(
    "euclidean", train, queries, 20, SearchOptions(folder / "state", "these rows")
)
np.savez(folder / "result.npz", ids=ids, distances=distances)
"""


class CountedRows(ArrayRows):
    """Rows that know which were read, and end a run like an interrupt does."""

    def __init__(self, array: np.ndarray, interrupt_at: int | None = None) -> None:
        super().__init__(array)
        self.done: set[int] = set()
        self.interrupt_at = interrupt_at

    def read(self, start: int, stop: int) -> np.ndarray:
        if self.interrupt_at is not None and start >= self.interrupt_at:
            raise KeyboardInterrupt
        self.done.update(range(start, stop))
        return super().read(start, stop)


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(truth, "SPAN", SPAN)
    monkeypatch.setattr(truth, "SHARE_OF_SAVING", 1000)  # after each span, however short
    return np.random.default_rng(1).standard_normal((9_500, 12)).astype(np.float32)


def test_goes_on_where_it_was_interrupted(vectors: np.ndarray, tmp_path: Path) -> None:
    state, queries = tmp_path / "state", vectors[:30]
    expected = exact_neighbors("ip", vectors, queries, 7)
    with pytest.raises(KeyboardInterrupt):
        ground_truth(
            "ip",
            CountedRows(vectors, interrupt_at=5000),
            queries,
            7,
            SearchOptions(state=state, progress=False),
        )
    rows = CountedRows(vectors)
    found = ground_truth("ip", rows, queries, 7, SearchOptions(state=state, progress=False))
    assert rows.done == set(range(4000, 9500))
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(part, other)
    rows = CountedRows(vectors)
    again = ground_truth("ip", rows, queries, 7, SearchOptions(state=state, progress=False))
    assert not rows.done  # until its caller deletes it, the state has the result
    np.testing.assert_array_equal(again[0], expected[0])


def test_state_of_another_question_is_not_used(vectors: np.ndarray, tmp_path: Path) -> None:
    state = tmp_path / "state"
    ground_truth("ip", vectors, vectors[:5], 7, SearchOptions(state=state, mark="a", progress=False))
    others = (
        ("euclidean", vectors, vectors[:5], 7, "a"),
        ("ip", vectors[1:], vectors[:5], 7, "a"),
        ("ip", vectors.astype(np.float64), vectors[:5], 7, "a"),
        ("ip", vectors, vectors[1:6], 7, "a"),
        ("ip", vectors, vectors[:5], 8, "a"),
        ("ip", vectors, vectors[:5], 7, "b"),
    )
    for metric, train, queries, k, mark in others:
        rows = CountedRows(train)
        found = ground_truth(metric, rows, queries, k, SearchOptions(state=state, mark=mark, progress=False))
        assert len(rows.done) == len(train)
        np.testing.assert_array_equal(found[0], exact_neighbors(metric, train, queries, k)[0])


@pytest.mark.parametrize("damage", ["shorter", "other bytes", "empty"])
def test_damaged_state_is_not_used(vectors: np.ndarray, tmp_path: Path, damage: str) -> None:
    state = tmp_path / "state"
    expected = ground_truth("ip", vectors, vectors[:5], 7, SearchOptions(state=state, progress=False))
    content = bytearray(state.read_bytes())
    if damage == "other bytes":
        for at in range(100, len(content) - 100, 20):
            content[at] ^= 255
    state.write_bytes(content[: {"shorter": len(content) // 2, "empty": 0}.get(damage)])
    found = ground_truth("ip", vectors, vectors[:5], 7, SearchOptions(state=state, progress=False))
    np.testing.assert_array_equal(found[0], expected[0])


def test_killed_at_any_moment_the_bytes_are_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    np.save(tmp_path / "train.npy", rng.integers(0, 4, (150_000, 16)).astype(np.float32))
    np.save(tmp_path / "test.npy", rng.integers(0, 4, (300, 16)).astype(np.float32))
    took = start_and_wait(tmp_path)
    undisturbed = (tmp_path / "result.npz").read_bytes()
    (tmp_path / "result.npz").unlink()
    (tmp_path / "state").unlink()
    for _ in range(3):
        process = start(tmp_path)
        time.sleep(random.uniform(0, took / 2))
        process.send_signal(signal.SIGKILL)
        process.wait()
    start_and_wait(tmp_path)
    assert (tmp_path / "result.npz").read_bytes() == undisturbed


def start(folder: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def start_and_wait(folder: Path) -> float:
    process = start(folder)
    began = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - began


def test_a_cluster_needs_files(vectors: np.ndarray) -> None:
    with pytest.raises(UserError, match="workers need files to read; these vectors are in memory"):
        ground_truth(
            "ip", vectors, vectors[:5], 7, SearchOptions(scheduler="tcp://127.0.0.1:1", progress=False)
        )
