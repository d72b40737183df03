import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import sample
from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.settings import Settings

from .clustering_data import SlicesOnly, blobs
from .conftest import ROOT
from .programs import takes_long

pytestmark = pytest.mark.thorough

PROGRAM = """
import sys
import numpy as np
from pathlib import Path
from ann_benchmarks.algorithms.clustering.settings import Settings
from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering import sample
sample.SECONDS_BETWEEN_SAVES = 0
folder = Path(sys.argv[1])
rows = np.load(folder / "rows.npy", mmap_mode="r")
memory, algorithm = int(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
lists = [300] if algorithm == "lloyd" else [20, 300]
settings = Settings(lists, iterations=6, memory=memory, algorithm=algorithm, threads=2)
found = cluster(rows, settings, folder / "state")
np.savez(folder / "result.npz", centroids=found.centroids, sizes=found.sizes, history=found.history)
"""


@pytest.mark.parametrize(
    ("memory", "algorithm"), [pytest.param(1, "lloyd", marks=takes_long), (2**40, "hierarchical")]
)
def test_killed_at_any_moment_it_resumes_to_the_same(tmp_path: Path, memory: int, algorithm: str) -> None:
    np.save(tmp_path / "rows.npy", blobs(30_000, 16, 200, spread=0.6))
    took = start_and_wait(tmp_path, memory, algorithm)
    undisturbed = (tmp_path / "result.npz").read_bytes()
    (tmp_path / "result.npz").unlink()
    for _ in range(2):
        process = start(tmp_path, memory, algorithm)
        time.sleep(random.uniform(0.1, 0.6) * took)
        process.send_signal(signal.SIGKILL)
        process.wait()
    start_and_wait(tmp_path, memory, algorithm)
    assert (tmp_path / "result.npz").read_bytes() == undisturbed
    assert not list(tmp_path.glob("state/*"))


def start(folder: Path, memory: int, algorithm: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder, str(memory), algorithm],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def start_and_wait(folder: Path, memory: int, algorithm: str) -> float:
    process = start(folder, memory, algorithm)
    began = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - began


class Interrupted(Exception):
    pass


def interrupt_after(passes: int, rows: object, settings: Settings, folder: Path) -> None:
    """End a run like an interrupt does, after this many passes over the whole sample."""
    with pytest.MonkeyPatch.context() as patch:
        saves = 0
        save = sample.ClusteringState.save

        def counting(kept: sample.ClusteringState, **values: Any) -> None:
            nonlocal saves
            save(kept, **values)
            saves += "history" in values
            if saves == passes:
                raise Interrupted

        patch.setattr(sample.ClusteringState, "save", counting)
        with pytest.raises(Interrupted):
            cluster(rows, settings, folder, progress=False)


@pytest.mark.parametrize("memory", [1, 2**40])
def test_finished_passes_are_not_repeated(
    memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SECONDS_BETWEEN_SAVES", 0)
    folder = tmp_path / "state"
    rows = blobs(20_000, 8, 60, spread=0.8)
    settings = Settings([100], memory=memory, iterations=6)
    expected = cluster(rows, settings, progress=False)
    interrupt_after(3, rows, settings, folder)
    saved = np.load(folder / "clustering.npz")
    assert saved["history"].tolist() == expected.history[:3]
    seconds = float(saved["seconds"])
    time.sleep(0.01)
    reading = SlicesOnly(rows)
    found = cluster(reading, settings, folder, progress=False)
    assert (reading.read < 200) == (memory == 1)  # a sample on disk is not drawn again
    np.testing.assert_array_equal(found.centroids, expected.centroids)
    assert found.history == expected.history
    assert found.seconds > seconds
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["other rows", "other settings", "cut", "empty", "no sample"])
def test_other_or_damaged_state_is_not_used(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SECONDS_BETWEEN_SAVES", 0)
    folder = tmp_path / "state"
    rows = blobs(20_000, 8, 60, spread=0.8)
    settings = Settings([100], memory=1, iterations=4)
    interrupt_after(2, rows, settings, folder)
    file = folder / "clustering.npz"
    if damage == "other rows":
        rows = rows[::-1]
    if damage == "other settings":
        settings = Settings([100], memory=1, iterations=3)
    if damage in ("cut", "empty"):
        file.write_bytes(file.read_bytes()[: 5000 * (damage == "cut")])
    if damage == "no sample":
        (folder / "sample.npy").unlink()
    found = cluster(rows, settings, folder, progress=False)
    expected = cluster(rows, settings, progress=False)
    np.testing.assert_array_equal(found.centroids, expected.centroids)
    assert not folder.exists()


def test_what_is_saved_is_of_one_clustering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = sample.ClusteringState(tmp_path, True, "one")
    kept.save(array=np.zeros(3))
    assert not list(tmp_path.iterdir())  # too soon after the start
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    kept.save(array=np.ones(3))
    again = sample.ClusteringState(tmp_path, True, "one")
    assert again.values["array"].tolist() == [1, 1, 1]
    assert again.seconds >= 100
    assert not sample.ClusteringState(tmp_path, True, "another").values
