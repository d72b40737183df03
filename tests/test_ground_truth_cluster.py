import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from ann_benchmarks.common import dask_cluster
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.maintenance import find_truth
from ann_benchmarks.data.datasets.own import OwnVectors, create_in_place, create_own
from ann_benchmarks.data.ground_truth import SearchOptions, exact_neighbors, ground_truth, truth
from ann_benchmarks.data.vectors import FirstRows, Rows, open_rows

pytestmark = pytest.mark.thorough

WORKERS = 2


class SlowRows(FirstRows):
    """Rows of a slow disk, so that there is time to kill a worker."""

    def read(self, start: int, stop: int) -> np.ndarray:
        time.sleep(0.002)
        return super().read(start, stop)


class RowsElsewhere(FirstRows):
    """Rows of a file that is another one on other machines."""

    def __init__(self, rows: Rows, other: Path) -> None:
        super().__init__(rows)
        self.other = other

    def __reduce__(self) -> tuple:
        return open_rows, (self.other,)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as local:
        yield local.scheduler_address


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(truth, "SPAN", 2000)
    monkeypatch.setattr(truth, "SHARE_OF_SAVING", 1000)
    vectors = np.random.default_rng(1).integers(0, 5, (30_000, 10)).astype(np.float32)
    np.save(tmp_path / "train.npy", vectors)
    return tmp_path / "train.npy"


def found_by(scheduler: str, metric: str, train: Rows, queries: np.ndarray, k: int, **more):
    return ground_truth(metric, train, queries, k, SearchOptions(scheduler=scheduler, progress=False, **more))


def test_the_same_answers_as_here(scheduler: str, file: Path, tmp_path: Path) -> None:
    train = np.load(file)
    queries = train[:40].copy()
    expected = exact_neighbors("euclidean", train, queries, 25)
    found = found_by(scheduler, "euclidean", open_rows(file), queries, 25, state=tmp_path / "state")
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_worker_that_dies_costs_only_its_spans(
    scheduler: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = np.load(file)
    queries = train[:40].copy()
    expected = exact_neighbors("ip", train, queries, 25)
    merged: list[int] = []
    merge = truth.PartialTruth.merge

    def noted(self, span, *found):
        merged.append(span)
        merge(self, span, *found)

    monkeypatch.setattr(truth.PartialTruth, "merge", noted)
    with Client(scheduler, set_as_default=False) as client:
        pids = client.run(os.getpid)

    def kill() -> None:
        while len(merged) < 3:
            time.sleep(0.001)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = found_by(scheduler, "ip", SlowRows(open_rows(file)), queries, 25)
    killer.join()
    assert sorted(merged) == list(range(15))  # each once
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    with Client(scheduler, set_as_default=False) as client:
        assert client.run(os.getpid) != pids  # it did die


@pytest.mark.parametrize("how", ["rows", "content", "missing"])
def test_workers_that_see_other_files_are_named(scheduler: str, file: Path, tmp_path: Path, how: str) -> None:
    train = np.load(file)
    other = tmp_path / "other.npy"
    if how != "missing":
        np.save(other, train[1:] if how == "rows" else train + 1)
    expected = {
        "rows": r"on the worker tcp://\S+, \S+other.npy has another size, or another row \d+ \(from 0\)",
        "content": r"on the worker tcp://\S+, \S+other.npy has another size, or another row",
        "missing": r"the worker tcp://\S+ cannot open the dataset: .*other.npy does not exist",
    }
    with pytest.raises(UserError, match=expected[how]) as error:
        found_by(scheduler, "ip", RowsElsewhere(open_rows(file), other), train[:3], 5)
    assert "\n" not in str(error.value)


def test_a_damaged_row_is_named_by_a_worker(scheduler: str, file: Path) -> None:
    train = np.load(file)
    train[12_345, 1] = np.nan
    np.save(file, train)
    with pytest.raises(UserError, match=r"row 12345 \(from 0\) holds NaN"):
        found_by(scheduler, "ip", open_rows(file), train[:3], 5)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense", "tcp://", "x://y:1"])
def test_a_scheduler_that_is_not_there(file: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "PATIENCE", 1)
    with pytest.raises(UserError, match="the Dask scheduler .* cannot be reached") as error:
        found_by(address, "ip", open_rows(file), np.load(file)[:3], 5)
    assert "\n" not in str(error.value)


def test_without_the_package_it_says_how_to_get_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="pip install distributed"):
        found_by("tcp://h:1", "ip", open_rows(file), np.load(file)[:3], 5)


@pytest.mark.parametrize("is_one_file", [True, False])
def test_a_dataset_is_opened_by_workers_in_another_folder(
    scheduler: str, is_one_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    vectors = np.random.default_rng(2).standard_normal((3000, 8)).astype(np.float32)
    np.save("v.npy", vectors[20:])
    np.save("q.npy", vectors[:20])
    if is_one_file:
        create_own("mine", OwnVectors("v.npy", "angular", "q.npy"), neighbors=10)
    else:
        create_in_place("mine", OwnVectors("v.npy", "angular", "q.npy"))
    find_truth("mine", 30, scheduler)
    expected = exact_neighbors("angular", vectors[20:], vectors[:20], 30)
    with get_dataset("mine")[0] as dataset:
        np.testing.assert_array_equal(dataset.truth().neighbors, expected[0])
        np.testing.assert_array_equal(dataset.true_distances(30), expected[1])
