"""pgvector's indexes in all their forms, and its scan without one, on a real server."""

import math
import threading
import time
from typing import Any

import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat, automatic_lists
from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.extension import check_available
from ann_benchmarks.algorithms.postgres.table.tables import fingerprint

from .postgres_fixtures import clustered, fitted

K = 10
ROWS, DIMENSION = 3000, 32
TRAIN = clustered(ROWS, DIMENSION, seed=4)
QUERIES = clustered(30, DIMENSION, seed=5)


def hnsw(form: str = "vector") -> PGVectorHNSW:
    return PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64, "form": form})


def ivfflat(form: str = "vector", lists: int = 30) -> PGVectorIVFFlat:
    return PGVectorIVFFlat("euclidean", {"lists": lists, "form": form})


def plan_with_rows(algorithm: PostgresANN) -> dict:
    """The plan of a query with the rows that each of its nodes really gave."""
    session = algorithm._session_for(QUERIES[0], K)
    literal = "[" + ",".join(map(str, QUERIES[0].tolist())) + "]"
    row = session._connection.execute(
        f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) EXECUTE ann_query('{literal}')"
    ).fetchone()
    return row[0][0]["Plan"]


def scanned_rows(plan: dict) -> float:
    """Rows that the scan below it all gave."""
    while plan.get("Plans"):
        plan = plan["Plans"][0]
    return plan["Actual Rows"]


def test_smaller_forms_make_smaller_indexes_as_estimated(plugin_server: Server):
    sizes = []
    for algorithm in (hnsw(), hnsw("halfvec"), hnsw("bit_hamming"), ivfflat(), ivfflat("halfvec"),
                      ivfflat("bit_hamming")):  # fmt: skip
        with fitted(algorithm, TRAIN) as facts:
            size, estimate = facts["index_size"], facts["estimated_index_size"]
            # IVFFlat's 30 lists end in a page each that is half full, or less, or more; HNSW lets equal
            # vectors, of which 32 bits make many, share a node.
            slack = 30 / 2 * 8 if isinstance(algorithm, PGVectorIVFFlat) else 0.08 * estimate
            assert size < estimate + slack
            assert size > estimate - slack or "bit" in str(algorithm)
            sizes.append(facts["index_size"])
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[3] > sizes[4] > sizes[5]


def test_an_index_that_is_not_parked_is_noticed(plugin_server: Server, server: Server):
    algorithm = PGVectorExact("euclidean")
    with fitted(algorithm, TRAIN, 0), server.connect() as connection:
        table = algorithm.table_name
        connection.execute(f"CREATE INDEX meddler ON {table} USING hnsw (embedding vector_l2_ops)")
        try:
            with pytest.raises(PostgresError, match="does not scan the whole table but uses .*meddler"):
                algorithm.query(TRAIN[0], K)
        finally:
            connection.execute("DROP INDEX ann_benchmarks.meddler")


@pytest.mark.parametrize(
    ("algorithm", "query_arguments", "candidates"),
    [
        (hnsw("bit_hamming"), (200, 60), 60),
        (hnsw("bit_jaccard"), (70,), 70),
        (hnsw("halfvec"), (90, 25), 25),
        (ivfflat("bit_hamming"), (7, 55), 55),
        (ivfflat(), (7,), K),
    ],
    ids=["hamming", "jaccard", "half", "ivf-hamming", "ivf"],
)
def test_so_many_candidates_are_read(
    plugin_server: Server, algorithm: PostgresANN, query_arguments: tuple[int, ...], candidates: int
):
    with fitted(algorithm, TRAIN, *query_arguments):
        assert scanned_rows(plan_with_rows(algorithm)) == candidates


def test_without_an_index_a_run_says_so(plugin_server: Server):
    algorithm = PGVectorExact("euclidean")
    with fitted(algorithm, TRAIN) as facts:
        assert facts["index_size"] == facts["index_build_time"] == algorithm.get_memory_usage() == 0
        assert facts["build_time"] == facts["load_time"] > 0


@pytest.mark.parametrize(
    ("algorithm", "dimension", "message"),
    [
        (hnsw(), 2001, r"up to 2,000 dimensions as vector.*form: halfvec.*form: bit_hamming"),
        (
            hnsw("halfvec"),
            4001,
            r"up to 4,000 dimensions as halfvec, these have 4,001: use form: bit_hamming",
        ),
        (ivfflat(), 2001, r"up to 2,000 dimensions as vector.*halfvec"),
        (ivfflat("halfvec"), 5000, r"up to 4,000 dimensions.*bit_hamming \(up to 64,000\)"),
        (hnsw("bit_hamming"), 16_001, r"holds up to 16,000 dimensions, these have 16,001"),
    ],
)
def test_too_many_dimensions_name_the_alternative(
    plugin_server: Server, algorithm: PostgresANN, dimension: int, message: str
):
    with pytest.raises(PostgresError, match=message):
        algorithm.fit(np.zeros((10, dimension), dtype=np.float32))


def test_re_ranking_fewer_than_asked_for_is_an_error(plugin_server: Server):
    algorithm = hnsw("bit_hamming")
    with (
        fitted(algorithm, TRAIN, 40, 5),
        pytest.raises(PostgresError, match="5 candidates cannot give 10 neighb"),
    ):
        algorithm.query(TRAIN[0], K)


def test_no_download_is_promised_where_none_is_known(server: Server):
    with server.connect() as connection, pytest.raises(PostgresError) as caught:
        check_available(connection, "no_such", "pgvector_hnsw")
    assert "--algorithm pgvector_hnsw --archive FILE" in str(caught.value)
    assert "download" not in str(caught.value)


def test_lists_follow_pgvectors_advice():
    assert [automatic_lists(rows) for rows in (10, 50_000, 10**6, 4 * 10**6, 10**10)] == [
        1,
        50,
        1000,
        2000,
        32_768,
    ]


def test_memory_suffices_for_many_lists(plugin_server: Server):
    train = clustered(12_000, 8, seed=7)
    algorithm = ivfflat(lists=3000)  # 3,000 x 12,000 bounds alone are more than the server's default of 64 MB
    algorithm.fit(train)
    assert math.isclose(float(algorithm.get_additional()["maintenance_work_mem"][:-2]), 310, abs_tol=100)
    algorithm.done()


def test_rebuild_builds_anew_and_keeps_the_old_one_until_then(
    plugin_server: Server, server: Server, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise psycopg.errors.QueryCanceled("stopped by hand")

    with fitted(hnsw(), TRAIN) as facts:
        took = facts["index_build_time"]
    rebuilding = hnsw()
    rebuilding.set_build_options(True)
    with monkeypatch.context() as broken:
        broken.setattr("ann_benchmarks.algorithms.postgres.catalog.remember_index", fail)
        with pytest.raises(PostgresError, match="broke off while building"), fitted(rebuilding, TRAIN):
            pass
    with fitted(hnsw(), TRAIN) as facts:
        assert facts["index_reused"]
        assert facts["index_build_time"] == took
    with fitted(rebuilding, TRAIN) as facts:
        assert not facts["index_reused"]
        anew = facts["index_build_time"]
    with fitted(hnsw(), TRAIN) as facts:
        assert facts["index_reused"]
        assert facts["index_build_time"] == anew != took


def test_waiting_for_somebody_elses_build_is_no_time_of_ours(plugin_server: Server, server: Server):
    """The build of a client that was killed goes on in its backend, and holds the table."""
    with fitted(ivfflat(), TRAIN):
        table = catalog.table_name(fingerprint(TRAIN), "vector")
    build = threading.Thread(target=lambda: rebuilt.append(rebuild(ivfflat(lists=20))))
    rebuilt: list[dict[str, Any]] = []
    began = time.monotonic()
    with server.connect() as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
        build.start()
        while not connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount:
            time.sleep(0.01)
        time.sleep(1)
    build.join()
    assert rebuilt[0]["index_build_time"] < time.monotonic() - began - 1


def rebuild(algorithm: PostgresANN) -> dict[str, Any]:
    algorithm.set_build_options(True)
    with fitted(algorithm, TRAIN) as facts:
        return facts
