import sys
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.ground_truth import SearchOptions, exact_neighbors
from ann_benchmarks.data.ground_truth import span as searching
from ann_benchmarks.data.ground_truth.devices import HOST, SEARCH_DEVICE, Device, TorchDevice, open_device
from ann_benchmarks.data.ground_truth.span import Problem, search_span
from ann_benchmarks.data.ground_truth.truth import PartialTruth
from ann_benchmarks.data.vectors.rows import ArrayRows, Rows
from ann_benchmarks.distance import METRICS, candidate_distances

VECTOR_METRICS = ("euclidean", "angular", "ip", "manhattan")
try:
    import torch
except ImportError:
    torch = None
GPU = torch and TorchDevice(torch, 128, 2**20, 1024, 64)  # PyTorch's CPU where there is no GPU
# Device, pairs kept without a look at their bounds, threads, spans.
CUTS = [(HOST, 2**14, 1, 1), (Device(rows=64, queries=14), 100, 4, 3)]
if GPU:
    CROWDED = TorchDevice(torch, 128, 2**20, 1024, 64)
    CROWDED.keep = lambda *_: None  # a span's rows do not fit in its memory
    CUTS += [(GPU, 2**14, 1, 1), (GPU, 100, 4, 3), (CROWDED, 2**14, 2, 2)]


def by_sorting_everything(metric: str, train, queries, k: int) -> tuple[np.ndarray, np.ndarray]:
    every = np.tile(np.arange(len(train)), (len(queries), 1))
    distances = candidate_distances(metric, queries, train, every)
    ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(distances, ids, axis=1)


def assert_exact(metric: str, train, queries, k: int) -> None:
    train = ArrayRows(train)
    ids, distances = by_sorting_everything(metric, train, queries, k)
    problem = Problem(metric, queries, k)
    for device, pairs, threads, spans in CUTS:
        token = SEARCH_DEVICE.set(device)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(searching, "FEWEST_PAIRS", pairs)
            found = searched_in_spans(problem, train, threads, spans)
        SEARCH_DEVICE.reset(token)
        np.testing.assert_array_equal(found.ids, ids)
        np.testing.assert_array_equal(found.distances, distances)
    assert found.ids.dtype == np.int64 and found.distances.dtype == np.float64


def searched_in_spans(problem: Problem, train, threads: int, spans: int) -> PartialTruth:
    found = PartialTruth(problem, train, spans, SearchOptions(), len(train))
    edges = np.linspace(0, len(train), spans + 1).astype(int)
    for number in reversed(range(spans)):  # as from a cluster, in any order
        span = range(edges[number], edges[number + 1])
        found.merge(number, search_span(problem, train, span, found.distances[:, -1], threads))
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 10, 1000, 1300])
def test_equals_sorting_every_distance(metric: str, k: int) -> None:
    rng = np.random.default_rng(2)
    train, queries = rng.standard_normal((1300, 24)), rng.standard_normal((20, 24))
    if metric in ("hamming", "jaccard"):  # 24 bits: very many ties
        assert_exact(metric, train > 0, queries > 0, k)
    else:
        assert_exact(metric, train.astype(np.float32), queries.astype(np.float32), k)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_duplicates_are_ordered_by_id(metric: str) -> None:
    rng = np.random.default_rng(3)
    train = np.repeat(rng.standard_normal((4, 17)).astype(np.float32), 300, axis=0)[rng.permutation(1200)]
    assert_exact(metric, train, train[:5], 350)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_neighbours_that_differ_in_the_last_bit(metric: str) -> None:
    rng = np.random.default_rng(10)
    train = rng.standard_normal((20, 48)).astype(np.float32)[rng.integers(0, 20, 4000)]
    bit = rng.integers(0, 48, 4000)
    train[np.arange(4000), bit] = np.nextafter(train[np.arange(4000), bit], np.float32(9))
    assert_exact(metric, train, train[:10], 30)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_differences_that_float32_products_cannot_see(metric: str) -> None:
    rng = np.random.default_rng(4)
    train = (1000 + 0.01 * rng.standard_normal((1500, 64))).astype(np.float32)
    train[7] *= 1e6  # an outlier must not widen the search for the others
    assert_exact(metric, train, train[100:110] + np.float32(0.001), 10)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
@pytest.mark.parametrize("offset", [0, 0.5, 1.5, 50])  # rows are moved to the middle if that is far
def test_near_duplicates_around_any_middle(metric: str, offset: float) -> None:
    rng = np.random.default_rng(14)
    train = (offset + rng.standard_normal((40, 32)))[rng.integers(0, 40, 3000)]
    train = (train + 1e-6 * rng.standard_normal(train.shape)).astype(np.float32)
    train[::500] = 0
    assert_exact(metric, train, train[:10], 60)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
@pytest.mark.parametrize("powers", [(-3, 3), (-37, 37), (-42, -40)])
def test_lengths_from_tiny_to_huge(metric: str, powers: tuple[int, int]) -> None:
    rng = np.random.default_rng(11)
    train = (rng.standard_normal((1500, 12)) * 10 ** rng.uniform(*powers, (1500, 1))).astype(np.float32)
    assert_exact(metric, train, train[:20], 20)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, np.float64, np.int64])
def test_other_number_types(metric: str, dtype: type) -> None:
    rng = np.random.default_rng(12)
    train = rng.standard_normal((1500, 20))
    if dtype == np.float64:
        train = 1e6 + 1e-3 * train  # all the same to float32
    elif dtype != np.float16:
        train = np.clip(train * 40 + (100 if dtype == np.uint8 else 0), np.iinfo(np.int8).min, 255)
        train = np.abs(train) if dtype == np.uint8 else np.minimum(train, 127)
    assert_exact(metric, train.astype(dtype), train[::100].astype(dtype), 25)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_rows_that_come_nearer_and_nearer(metric: str) -> None:
    rng = np.random.default_rng(5)
    train = rng.standard_normal((2000, 8)).astype(np.float32)
    query = rng.standard_normal((1, 8)).astype(np.float32)
    order = by_sorting_everything(metric, train, query, 2000)[0][0]
    assert_exact(metric, train[order[::-1]], query, 20)


def test_vectors_without_direction() -> None:
    rng = np.random.default_rng(6)
    train, queries = rng.standard_normal((600, 5)), rng.standard_normal((3, 5))
    train[[3, 300, 599]] = 0
    queries[1] = 0
    assert_exact("angular", train, queries, 400)
    assert_exact("ip", train, queries, 400)


def test_a_vector_that_most_rows_have_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    from ann_benchmarks.data.ground_truth import exact

    pair_distances = exact.pair_distances

    def counted(metric, a, b):
        computed.append(len(a))
        return pair_distances(metric, a, b)

    monkeypatch.setattr(exact, "pair_distances", counted)
    train = np.ones((200_000, 4), np.float32)
    ids, distances = exact_neighbors("euclidean", train, train[:10], 20, progress=False)
    np.testing.assert_array_equal(ids, np.tile(np.arange(20), (10, 1)))
    assert not distances.any()
    assert sum(computed) < len(train)


def test_sets() -> None:
    rng = np.random.default_rng(7)
    train = [rng.choice(40, rng.integers(0, 12), replace=False) for _ in range(300)]
    queries = [rng.choice(40, 8, replace=False) for _ in range(5)]
    ids, distances = by_sorting_everything("jaccard", train, queries, 50)
    found = exact_neighbors("jaccard", train, queries, 50, progress=False)
    np.testing.assert_array_equal(found[0], ids)
    np.testing.assert_array_equal(found[1], distances)


@pytest.mark.skipif(torch is None, reason="needs PyTorch")
def test_a_gpu_leaves_other_metrics_to_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    train = np.random.default_rng(9).standard_normal((500, 6)).astype(np.float32)
    expected = exact_neighbors("manhattan", train, train[:3], 5, progress=False)
    token = SEARCH_DEVICE.set(GPU)
    found = exact_neighbors("manhattan", train, train[:3], 5, progress=False)
    SEARCH_DEVICE.reset(token)
    np.testing.assert_array_equal(found, expected)
    assert capsys.readouterr().err.count("the CPU searches manhattan\n") == 1


def test_a_gpu_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match="--device gpu needs PyTorch.* pip install torch"):
        open_device("gpu")
    stand_in = SimpleNamespace(__version__="2.9", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    with pytest.raises(UserError, match="needs a CUDA GPU, and PyTorch 2.9 finds none"):
        open_device("gpu")


class StreamedRows(Rows):
    """Rows that can only be read, and say how much at once."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.label = vectors, "some.file"
        self.shape, self.dtype = vectors.shape, vectors.dtype
        self.most, self.starts = 0, []

    def read(self, start: int, stop: int) -> np.ndarray:
        self.most = max(self.most, stop - start)
        self.starts.append(start)
        return self.vectors[start:stop].copy()


def test_every_kind_of_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ann_benchmarks.data.vectors.rows.GAP_BYTES", 0
    )  # of candidates, nothing between is read
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((9000, 16)).astype(np.float32)
    expected = by_sorting_everything("euclidean", vectors, vectors[:4], 10)
    np.save(tmp_path / "x.npy", vectors)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["whole"] = vectors
        file.create_dataset("chunked", data=vectors, chunks=(100, 16))
        streamed = StreamedRows(vectors)
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        for train in (vectors, mapped, file["whole"], file["chunked"], streamed):
            found = exact_neighbors("euclidean", train, vectors[:4], 10, progress=False)
            np.testing.assert_array_equal(found[0], expected[0])
            np.testing.assert_array_equal(found[1], expected[1])
    assert streamed.most <= 1024
    blocks = streamed.starts[: streamed.starts.index(8192) + 1]
    assert blocks == sorted(blocks)  # decoders of compressed files go forward only


@pytest.mark.parametrize("metric", VECTOR_METRICS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_without_distances_is_named(metric: str, value: float) -> None:
    train = np.random.default_rng(13).standard_normal((3000, 8)).astype(np.float32)
    for row in (0, 2345):
        damaged = train.copy()
        damaged[row, 3] = value
        with pytest.raises(UserError, match=rf"training row {row} \(from 0\) holds NaN, infinity"):
            exact_neighbors(metric, damaged, train[:4], 5, progress=False)
        with pytest.raises(UserError, match=rf"some.file row {row} \(from 0\) holds NaN, infinity"):
            exact_neighbors(metric, StreamedRows(damaged), train[:4], 5, progress=False)
    with pytest.raises(UserError, match=r"query 2345 \(from 0\) holds NaN, infinity"):
        exact_neighbors(metric, train, damaged, 5, progress=False)


def test_what_cannot_be_searched() -> None:
    train = np.zeros((10, 2), np.float32)
    with pytest.raises(UserError, match="11 neighbours requested, but there are only 10"):
        exact_neighbors("euclidean", train, train[:1], 11)
    with pytest.raises(UserError, match="request at least 1"):
        exact_neighbors("euclidean", train, train[:1], 0)
    with pytest.raises(UserError, match="the same number of dimensions"):
        exact_neighbors("euclidean", train, np.zeros((1, 3)), 1)
    with pytest.raises(UserError, match="unknown metric 'chebyshev'"):
        exact_neighbors("chebyshev", train, train[:1], 1)
    assert exact_neighbors("euclidean", train, train[:0], 3)[0].shape == (0, 3)


def test_a_gpu_without_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object) -> None:
        raise RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate\nand more")

    monkeypatch.setattr(searching._Search, "run", run)
    rows = np.zeros((9, 2), np.float32)
    token = SEARCH_DEVICE.set(Device())
    with pytest.raises(UserError, match="^the GPU is out of memory; end other programs on it"):
        exact_neighbors("euclidean", rows, rows, 1, progress=False)
    SEARCH_DEVICE.reset(token)
