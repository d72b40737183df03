"""Rows on shards by cells, for queries of the nearest: answers, tables that are found again, refusals."""

from itertools import chain

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.topology import dealing
from ann_benchmarks.algorithms.postgres.topology.dealing import CellRows

from .test_shards import K, by_clients, shard_servers

pytestmark = pytest.mark.thorough

__all__ = ["shard_servers"]
COUNT, DIMENSION = 4, 12
VECTORS = np.random.default_rng(7).normal(size=(640, DIMENSION)).astype(np.float32)
TRAIN, QUERIES = VECTORS[:600], VECTORS[600:]


@pytest.fixture
def shards(plugin_server, shard_servers, monkeypatch):
    """Four shards on two servers."""
    every = {number: shard_servers[(number - 1) % 2 + 1] for number in range(1, COUNT + 1)}
    monkeypatch.setattr(servers, "_shards", every)
    return every


class Fitted:
    """A plug-in on shards, and the phases in which it did something."""

    def __init__(self, probes, metric="euclidean", train=TRAIN, count=COUNT, engine="routed"):
        self.algorithm, self.phases = PGVectorExact(metric), []
        self.algorithm.set_servers("shards", count=count, engine=engine, probes=probes)
        self.algorithm.set_phase_listener(self.phases.append)
        self.train = train

    def __enter__(self):
        try:
            self.algorithm.fit(self.train)
            self.algorithm.set_query_arguments(0)
        except BaseException:
            self.algorithm.done()
            raise
        return self

    def __exit__(self, *exception):
        self.algorithm.done()

    @property
    def table(self):
        return self.algorithm._indexed

    @property
    def names(self):
        return [shard.names()[0] for shard in self.table._shards]

    def ids(self):
        """The ids that the table of each shard holds."""
        found = []
        for shard in self.table._shards:
            with shard.server.connect() as connection:
                ids = connection.execute(f"SELECT id FROM {shard.names()[0]} ORDER BY id").fetchall()
            found.append([number for (number,) in ids])
        return found


def lengthened(vectors):
    """Vectors of different lengths."""
    return vectors * np.linspace(0.5, 1.5, len(vectors), dtype=np.float32)[:, np.newaxis]


def distances(metric, queries, rows):
    """Distances of each query and row by float64: (queries, rows)."""
    queries, rows = queries.astype(float), rows.astype(float)
    if metric == "euclidean":
        return ((queries[:, np.newaxis] - rows) ** 2).sum(2)
    if metric == "angular":
        queries, rows = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (queries, rows))
    return -queries @ rows.T


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
def test_answers_are_the_nearest_rows_of_the_nearest_shards(shards, metric):
    train, queries = lengthened(TRAIN), lengthened(QUERIES)
    of_all = np.argsort(distances(metric, queries, train), axis=1)[:, :K]
    recalls = []
    for probes in (1, 2, COUNT):
        with Fitted(probes, metric, train) as fitted:
            ids = fitted.ids()
            assert sorted(chain(*ids)) == list(range(len(train)))
            centroids = fitted.table._engine.router.cells.centroids
            nearest = np.argsort(distances(metric, queries, centroids), axis=1)[:, :probes]
            expected, shares = [], []
            for query, places in zip(queries, nearest, strict=True):
                here = np.concatenate([ids[place] for place in places])
                order = np.argsort(distances(metric, query[np.newaxis], train[here])[0])
                expected.append(here[order[:K]].tolist())
                shares.append(len(here) / len(train))
            assert fitted.algorithm.time_queries(queries, K)[1] == expected
            facts = fitted.algorithm.get_additional()
            assert facts["searched_rows_share"] == pytest.approx(np.mean(shares))
            assert (facts["shard_probes"], facts["shard_rows"]) == (probes, [*map(len, ids)])
            fitted.algorithm.time_queries(queries[:1], K)  # of which alone it is then: others were a warm-up
            assert fitted.algorithm.get_additional()["searched_rows_share"] == pytest.approx(shares[0])
            recalls.append(np.mean([len({*a} & {*b}) / K for a, b in zip(expected, of_all, strict=True)]))
            if metric != "angular":
                continue  # clients find the shards in the same way
            by_number = by_clients(fitted.algorithm, queries)
            assert [by_number[number] for number in range(len(queries))] == expected
            fitted.algorithm.batch_query(queries, K)
            assert fitted.algorithm.get_batch_results() == expected
            assert fitted.algorithm.get_additional()["searched_rows_share"] == pytest.approx(np.mean(shares))
    assert 0.2 < recalls[0] < recalls[1] < recalls[2] == 1


def test_a_second_run_finds_the_tables_beside_those_of_other_engines(shards, monkeypatch):
    with Fitted(2) as first, pytest.MonkeyPatch.context() as patched:
        names = first.names
        first.algorithm.done()
        with Fitted(None, engine="client") as by_id:
            assert not {*by_id.names} & {*names}
        patched.setattr(dealing, "find_cells", None)  # is not called
        with Fitted(1) as again:
            assert again.names == names and not {"cells", "load"} & {*again.phases}
            assert again.algorithm.get_additional()["shard_cells_time"] > 0
        with Fitted(None, engine="client") as by_id:
            assert "load" not in by_id.phases
    with shards[1].connect() as connection:
        connection.execute("DROP TABLE ann_benchmarks.shard_cells")
    with Fitted(2) as anew:  # the same rows have the same cells
        assert anew.names == names and "cells" in anew.phases and "load" not in anew.phases
    changed = TRAIN.copy()
    changed[0] += 1
    with Fitted(2, train=changed) as other:
        assert not {*other.names} & {*names}


def test_cells_that_are_damaged_are_not_used(shards):
    with Fitted(2):
        pass
    with shards[1].connect() as connection:
        connection.execute("UPDATE ann_benchmarks.shard_cells SET content = substr(content, 9)")
        with (
            pytest.raises(PostgresError, match="shard_cells of shard 1 is damaged: drop that table"),
            Fitted(2),
        ):
            pass
        connection.execute("DROP TABLE ann_benchmarks.shard_cells")


def test_an_interrupted_load_goes_on_with_the_same_cells(shards, monkeypatch):
    train = TRAIN + 2
    begun = Fitted(2, train=train)

    def interrupt(phase):
        begun.phases.append(phase)
        if begun.phases.count("load") == 3:
            raise KeyboardInterrupt

    begun.algorithm.set_phase_listener(interrupt)
    with pytest.raises(KeyboardInterrupt), begun:
        pass
    monkeypatch.setattr(dealing, "find_cells", None)  # is not called
    with Fitted(2, train=train) as again:
        assert again.phases.count("load") == 2
        assert sorted(chain(*again.ids())) == list(range(len(train)))


def test_a_shard_with_few_rows_gives_what_it_has(shards):
    train = np.concatenate([TRAIN[:8], TRAIN[:8] + 100])
    with Fitted(1, train=train, count=2) as fitted:
        (found,) = fitted.algorithm.time_queries(train[:1], K)[1]
    assert sorted(found) == list(range(8))


def test_a_shard_without_rows_is_refused(shards, monkeypatch):
    with (
        pytest.raises(PostgresError, match="by cells over 4 shards: .* only 1 different vectors, .*fewer"),
        Fitted(1, train=np.ones((50, DIMENSION), np.float32)),
    ):
        pass
    monkeypatch.setattr(dealing, "spread", lambda rows, cells: np.arange(len(rows)).astype(np.uint8) % 3)
    with (
        pytest.raises(PostgresError, match="^shard 4 of 4 would have no rows: use fewer shards"),
        Fitted(1, train=TRAIN + 1),
    ):
        pass


def test_what_has_no_cells_is_refused(shards):
    for metric in ("manhattan", "hamming", "jaccard"):
        with pytest.raises(
            PostgresError, match=f"cells cannot be formed by {metric} distances: use --shard-"
        ):
            Fitted(1, metric)
    for probes in (0, COUNT + 1):
        with pytest.raises(PostgresError, match=f"cannot be sent to {probes} of 4 shards: use 1 to 4"):
            Fitted(probes)


def test_rows_of_a_cell_are_read_by_range():
    places = np.random.default_rng(1).integers(3, size=len(TRAIN)).astype(np.uint8)
    own = np.flatnonzero(places == 1)
    rows = CellRows(TRAIN, 1, places, 3, "mark")
    assert rows.shape == (len(own), DIMENSION) and len(rows) == len(own)
    for part in (
        slice(0, 5),
        slice(30, 60),
        slice(7, 8),
        slice(100, 999),
        slice(5, 5),
        slice(0, 50, 7),
        slice(None),
    ):
        assert (rows[part] == TRAIN[own][part]).all()
        numbers = np.arange(len(own))[part]
        assert (rows.id_of(numbers) == own[part]).all()
    assert rows.row_name(40) == f"row {own[40]} (from 0)"
    other = CellRows(TRAIN, 2, places, 3, "mark")
    by_id = dealing.ShardRows(TRAIN, 1, 3, "mark")
    assert len({rows.fingerprint(), other.fingerprint(), by_id.fingerprint()}) == 3
