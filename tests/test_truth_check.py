"""True neighbours that follow another convention are put right; those of other vectors are refused.

What is right is computed here by plain numpy. A plug-in that searches half of the rows has a known recall.
"""

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.truth_check import CONVENTIONS
from ann_benchmarks.results.runs import load_runs

from .programs import call_program

pytestmark = pytest.mark.thorough

ROWS, DIMENSION, QUERIES, K = 900, 12, 130, 20
RNG = np.random.default_rng(8)
TRAIN = RNG.normal(size=(ROWS, DIMENSION)).astype(np.float32) + 1
TEST = RNG.normal(size=(QUERIES, DIMENSION)).astype(np.float32) + 1
HALF = """
    def fit(self, X): self.X = X
    def query(self, q, n):
        found = [row for row in np.argsort(DISTANCES, kind="stable") if row % 2 == 0]
        return found[:n]
"""
SORTED_BY = {
    "euclidean": "((self.X.astype(float) - q) ** 2).sum(1)",
    "angular": "-(self.X.astype(float) @ q) / np.linalg.norm(self.X.astype(float), axis=1)",
    "ip": "-(self.X.astype(float) @ q)",
    "hamming": "(self.X != q).sum(1)",
    "jaccard": "1 - (self.X & q).sum(1) / (self.X | q).sum(1)",
}


def vectors(metric):
    return (TEST > 1, TRAIN > 1) if metric in ("hamming", "jaccard") else (TEST, TRAIN)


def point_type(metric):
    return "bit" if metric in ("hamming", "jaccard") else "float"


def all_distances(metric):
    test, train = vectors(metric)
    a, b = test[:, None].astype(float), train[None].astype(float)
    inner = (a * b).sum(2)
    norms = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
    return {
        "euclidean": lambda: np.sqrt(((a - b) ** 2).sum(2)),
        "angular": lambda: 1 - inner / norms,
        "ip": lambda: -inner,
        "hamming": lambda: (a != b).mean(2),
        "jaccard": lambda: 1 - inner / np.maximum(a, b).sum(2),
    }[metric]()


def true_neighbors(metric):
    distances = all_distances(metric)
    ids = np.argsort(distances, axis=1, kind="stable")[:, :K]
    return ids, np.take_along_axis(distances, ids, 1)


def half_recall(metric):
    """The recall of the plug-in, ties counted, by plain numpy."""
    distances = all_distances(metric)
    found = np.sort(distances[:, ::2], axis=1)[:, :10]
    limit = np.sort(distances, axis=1)[:, 9:10]
    return float((found <= limit * (1 + np.sign(limit) * 1e-9) + 1e-14).mean())


def write(metric, ids, distances=None, name="d"):
    test, train = vectors(metric)
    with h5py.File(f"data/{name}.hdf5", "w") as file:
        file["train"], file["test"], file["neighbors"] = train, test, ids
        if distances is not None:
            file["distances"] = distances
        file.attrs.update(distance=metric, point_type=point_type(metric))


@pytest.fixture
def half(workspace):
    """Return what measures the plug-in on a dataset: its recall, and what run.py said."""

    def measure(metric, name="d"):
        if not (workspace.path / "plugins").exists():
            workspace.add_plugin("half", HALF.replace("DISTANCES", SORTED_BY[metric]))
            config = workspace.path / "plugins" / "half" / "config.yml"
            config.write_text(config.read_text().replace("float:", f"{point_type(metric)}:"))
        done = workspace.run("--dataset", name)
        (path,) = [*Path("results").rglob("half/*.hdf5")] or [None]
        if path is None:
            return None, done
        (run,) = load_runs([path])
        return run.metrics["recall"], done

    return measure


FROM_1 = "neighbours numbered from 1"
CHANGES = {
    "farthest first": ("euclidean", lambda ids, d: (ids[:, ::-1], d[:, ::-1]), "neighbours out of order"),
    "farthest first, no distances": ("euclidean", lambda ids, d: (ids[:, ::-1], None), None),
    "numbered from 1": ("ip", lambda ids, d: (ids + 1, d), FROM_1),
    "numbered from 1, no distances": (
        "angular",
        lambda ids, d: (ids + 1, None),
        "neighbours numbered from 1",
    ),
    "padded": (
        "euclidean",
        lambda ids, d: (np.where(np.arange(K) < 12, ids, -1), d),
        "-1 for missing neighbours: 12 of each query will be used",
    ),
    "single precision": ("angular", lambda ids, d: (ids, d.astype(np.float16)), "rounded distances"),
    "right": ("euclidean", lambda ids, d: (ids, d.astype(np.float32)), None),
}
for number, known in enumerate(CONVENTIONS):
    if not (known.metric == "ip" and "unit vectors" in known.name):  # the vectors here are longer
        CHANGES[f"{known.metric}, {known.name}"] = (
            known.metric,
            lambda ids, d, number=number: (ids, CONVENTIONS[number].values(d, DIMENSION)),
            known.name,
        )


BY_PROGRAM = (
    "farthest first",
    "numbered from 1",
    "padded",
    "right",
    "ip, inner products",
    "euclidean, squared distances",
)


@pytest.mark.parametrize("change", CHANGES)
def test_another_convention_is_put_right(change, half, capsys):
    metric, changed, said = CHANGES[change]
    ids, distances = true_neighbors(metric)
    write(metric, *changed(ids, distances))
    errors = ""
    if change in BY_PROGRAM:
        recall, done = half(metric)
        errors = done.stderr
        assert done.returncode == 0, errors
        assert recall == pytest.approx(half_recall(metric), abs=1e-9)
    with get_dataset("d")[0] as dataset:
        found = dataset.truth()
    errors += capsys.readouterr().err
    assert (said or "the true neighbours of d were checked: 100 of 130 queries") in errors
    assert ("warning: d came with" in errors) == (said is not None)
    depth = found.neighbors.shape[1]
    np.testing.assert_allclose(found.known_distances, distances[:, :depth], rtol=1e-6, atol=1e-12)
    if change == "right":
        again = half(metric)[1]
        assert "true neighbours" not in again.stderr and "nothing to do" in again.stdout


def shuffled(ids):
    return np.random.default_rng(1).permuted(np.arange(ROWS))[ids]


REFUSED = {
    "of other vectors": (lambda ids, d: (shuffled(ids), None), "which the file does not name"),
    "of another metric": (lambda ids, d: (true_neighbors("ip")[0], None), "which the file does not name"),
    "distances of other vectors": (lambda ids, d: (ids, d + 1), "in the file, and its euclidean distance is"),
    "numbered from 1, but for one": (
        lambda ids, d: (np.where(ids == ROWS - 1, 0, ids + 1), None),
        "seem to be numbered from 1, but query",
    ),
    "beyond the rows": (lambda ids, d: (ids + 5, None), "but the last row is 899"),
    "a row twice": (lambda ids, d: (ids[:, [0, *range(K - 1)]], None), "more than once"),
    "no neighbour": (
        lambda ids, d: (np.where(np.arange(QUERIES)[:, None] == 7, -1, ids), None),
        r"query 7 \(from 0\) has no neighbour",
    ),
    "negative": (lambda ids, d: (np.where(ids == ids[3, 3], -4, ids), None), "names row -4"),
}


@pytest.mark.parametrize("change", REFUSED)
def test_anything_else_is_one_line(change, half):
    changed, said = REFUSED[change]
    write("euclidean", *changed(*true_neighbors("euclidean")))
    with pytest.raises(UserError, match=said) as raised:
        get_dataset("d")[0].truth()
    assert "\n" not in str(raised.value) and "create_dataset.py --ground-truth d" in str(raised.value)
    if change != "beyond the rows":
        return
    recall, done = half("euclidean")
    assert (
        recall is None and done.returncode == 1 and done.stderr.startswith("error: the true neighbours of d")
    )
    verified = call_program("create_dataset.py", "--verify", "d")
    assert verified.returncode == 1 and "true neighbours of d are not those" in verified.stdout
    assert call_program("create_dataset.py", "--ground-truth", "d", "--neighbors", "20").returncode == 0
    assert half("euclidean")[0] == pytest.approx(half_recall("euclidean"), abs=1e-9)


def test_verify_names_a_convention(workspace):
    ids, distances = true_neighbors("euclidean")
    write("euclidean", ids, distances**2)
    done = call_program("create_dataset.py", "--verify", "d")
    assert done.returncode == 1 and "d came with squared distances" in done.stdout


def test_a_file_that_changes_is_checked_again(workspace):
    ids, distances = true_neighbors("euclidean")
    write("euclidean", ids, distances)
    with get_dataset("d")[0] as dataset:
        dataset.truth()
    record = json.loads(Path("data/d.checked.json").read_text())
    assert record["extent"].startswith("100 of 130 queries") and not Path("data/d.truth.h5").exists()
    write("euclidean", shuffled(ids), distances)
    with pytest.raises(UserError, match="are not those of its vectors"):
        get_dataset("d")[0].truth()


def test_better_answers_than_the_truth_fail_the_point(half):
    ids, distances = true_neighbors("euclidean")
    query = int(np.setdiff1d(np.arange(QUERIES), np.linspace(0, QUERIES - 1, 100, dtype=int))[0])
    ids[query] = np.argsort(all_distances("euclidean")[query])[5 : 5 + K]
    distances[query] = all_distances("euclidean")[query][ids[query]]
    write("euclidean", ids, distances)  # the sample does not have this query
    recall, done = half("euclidean")
    assert recall is None and done.returncode == 1
    assert (
        f"the true neighbours of d are wrong: query {query} was answered with row"
        in done.stdout + done.stderr
    )


@pytest.mark.parametrize("scale", [1e-4, 1, 1e5])
def test_recall_does_not_depend_on_the_scale(scale, half):
    distances = all_distances("euclidean")
    ids = np.argsort(distances, axis=1, kind="stable")[:, :K]
    with h5py.File("data/d.hdf5", "w") as file:
        file["train"], file["test"] = (TRAIN * np.float32(scale), TEST * np.float32(scale))
        file["neighbors"] = ids
        file.attrs["distance"] = "euclidean"
    assert half("euclidean")[0] == pytest.approx(half_recall("euclidean"), abs=2e-3)  # the scaling rounds


# ---- ids of rows


def table(name, **columns):
    pq.write_table(pa.table(columns), f"data/{name}.parquet")


def lists(values, kind=None):
    return pa.array(list(values), pa.list_(kind or pa.float32()))


KEYS = RNG.permutation(ROWS) + 10_000
IDS = {
    "integers": (KEYS, KEYS, pa.int64(), None),
    "texts": (KEYS.astype(str), KEYS, pa.int64(), "column 'id' of string; ids must be integers"),
    "texts that name rows": (KEYS, KEYS.astype(str), pa.string(), "not numbers of up to 64 bits"),
    "floats": (KEYS.astype(float), KEYS, pa.int64(), "column 'id' of double; ids must be integers"),
    "unknown": (KEYS, KEYS + 1, pa.int64(), "names id .*, which none of the 900 training rows has"),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_are_integers(kind, half):
    own, named, kind_of_named, refused = IDS[kind]
    ids, _ = true_neighbors("euclidean")
    order, queries = RNG.permutation(QUERIES), RNG.permutation(QUERIES) + 50
    table("train", id=own, emb=lists(TRAIN))
    table("test", id=queries, emb=lists(TEST))
    table("truth", id=queries[order], neighbors_id=lists(named[ids[order]], kind_of_named))
    Path("data/d.yml").write_text(
        "distance: euclidean\ntrain: train.parquet\ntest: test.parquet\nneighbors: truth.parquet\n"
    )
    recall, done = half("euclidean")
    if refused:
        assert recall is None and done.returncode == 1
        with pytest.raises(UserError, match=refused):
            get_dataset("d")[0].truth()
    else:
        assert recall == pytest.approx(half_recall("euclidean"), abs=1e-9), done.stderr


def test_ids_in_another_column_are_not_row_numbers(half):
    ids, _ = true_neighbors("euclidean")
    keys = RNG.permutation(ROWS)
    table("train", pk=keys, emb=lists(TRAIN))
    table("test", emb=lists(TEST))
    table("truth", neighbors_id=lists(keys[ids], pa.int64()))
    Path("data/d.yml").write_text(
        "distance: euclidean\ntrain: train.parquet\ntest: test.parquet\nneighbors: truth.parquet\n"
    )
    recall, done = half("euclidean")
    assert recall is None and done.returncode == 1 and "are not those of its vectors" in done.stderr


# ---- right datasets pass


def sets(values):
    return [np.flatnonzero(row) for row in values]


@pytest.mark.parametrize("kind", ["copies", "few distances", "sets", "zeros", "more than rows"])
def test_right_datasets_are_not_refused(kind, workspace):
    test, train, metric, k = TEST, TRAIN, "euclidean", K
    if kind == "copies":
        train = np.repeat(TRAIN[:90], 10, axis=0)
    elif kind == "few distances":
        test, train, metric = TEST[:, :4] > 1, TRAIN[:, :4] > 1, "hamming"
    elif kind == "zeros":
        train, metric = np.where(np.arange(ROWS)[:, None] % 9 == 0, 0, TRAIN), "angular"
    elif kind == "more than rows":
        train, k = TRAIN[:K], K
    with h5py.File("data/d.hdf5", "w") as file:
        if kind == "sets":
            rows, queries = sets(TRAIN > 1), sets(TEST > 1)
            file["train"], file["test"] = np.concatenate(rows), np.concatenate(queries)
            file["size_train"], file["size_test"] = [len(row) for row in rows], [len(row) for row in queries]
            distances = all_distances("jaccard")
            file.attrs.update(distance="jaccard", type="sparse", dimension=DIMENSION)
        else:
            file["train"], file["test"] = train, test
            a, b = test[:, None].astype(float), train[None].astype(float)
            norms = np.linalg.norm(a, axis=2) * np.linalg.norm(b, axis=2)
            distances = {
                "euclidean": np.sqrt(((a - b) ** 2).sum(2)),
                "hamming": (a != b).mean(2),
                "angular": 1 - np.divide((a * b).sum(2), norms, out=np.zeros_like(norms), where=norms > 0),
            }[metric]
            file.attrs["distance"] = metric
        ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
        file["neighbors"], file["distances"] = ids, np.take_along_axis(distances, ids, 1).astype(np.float32)
    found = get_dataset("d")[0].truth()
    np.testing.assert_allclose(found.known_distances, np.sort(distances, axis=1)[:, :k], atol=1e-6)
