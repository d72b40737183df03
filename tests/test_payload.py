"""What comes back beside the ids: on a real server, in results, in names, and what is refused."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.clients.pool import ClientPool
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.session.session import QuerySession
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.attributed import TEXT_BYTES, AttributedColumn, row_text
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import FilteredVector
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest, Procedure
from ann_benchmarks.jobs.rounds import Rounds
from ann_benchmarks.load.request import Load, QueryOrder
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.rounds import Contenders, Enter, Keep, Turn
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.runs import load_runs

from .client_answers import by_clients
from .filtered_rows import DIMENSION, QUERIES, TRAIN, K, attributes, one
from .programs import events_of
from .relay import relayed

pytestmark = pytest.mark.thorough

BYTES = {"text": TEXT_BYTES, "vector": 4 + 4 * DIMENSION}
BUILD = {"M": 8, "efConstruction": 32}


def bytes_sent(algorithm: PostgresANN, queries: np.ndarray, count: int) -> np.ndarray:
    """Return the bytes that the server sends for the first query to a session, and for all to two clients."""
    statement = algorithm.statement(queries[0], count)
    with relayed(dict(statement.parameters)) as relay:
        statement = replace(statement, parameters=relay.parameters)
        session, pool = QuerySession(statement), ClientPool(statement, queries, 2)
        pool.prepare(np.array_split(np.arange(len(queries)), 2))
        before = relay.sent
        session.run(session.encode(queries[0]))
        after = relay.sent
        pool.run()
        pool.answers()
        found = after - before, relay.sent - after
        session.close()
        pool.end()
    return np.array(found)


@contextmanager
def fitted(payload="", filtered=False, is_exact=False, **build):
    """Give a fitted plug-in with the payload; with attributes, if requested."""
    algorithm = PGVectorExact("euclidean") if is_exact else PGVectorHNSW("euclidean", {**BUILD, **build})
    if payload:
        algorithm.set_payload(payload)
    if filtered:
        algorithm.set_row_attributes(attributes())
        algorithm.set_query_filters({one('the "word"', "=", "plain"): 300})
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(0 if is_exact else 100)
        yield algorithm
    finally:
        algorithm.done()


def test_rows_come_back_whole_in_every_way_to_ask(plugin_server: Server):
    with fitted() as plain:
        wire = bytes_sent(plain, QUERIES, K)
        true, name, sql = (
            plain.time_queries(QUERIES, K)[1],
            plain.table_name,
            plain.statement(QUERIES[0], K).sql,
        )
        assert sql == f"SELECT id FROM {name} ORDER BY embedding <-> $1 LIMIT {K}"
        assert "payload_bytes" not in plain.get_additional() and by_clients(plain, QUERIES, K)[1] == {}
    for payload, size in BYTES.items():
        with fitted(payload) as algorithm:
            more = bytes_sent(algorithm, QUERIES, K) - wire
            # In each row a value with its length, and before the rows the description of their column.
            column = {"text": "ann_payload", "vector": "embedding"}[payload]
            one = K * (4 + size) + len(column) + 1 + 18
            assert more.tolist() == [one, len(QUERIES) * one]
            ids = algorithm.time_queries(QUERIES, K)[1]
            if payload == "vector":
                assert algorithm.table_name == name and algorithm.get_additional()["index_reused"]
                assert ids == true
            else:  # another table, whose graph has other levels
                assert algorithm.table_name != name and not algorithm.get_additional()["index_reused"]
                both = [row in found for rows, found in zip(true, ids, strict=True) for row in rows]
                assert np.mean(both) > 0.5
            assert algorithm.get_additional()["payload_bytes"] == K * size
            assert by_clients(algorithm, QUERIES, K) == (ids, {"payload_bytes": K * size})
            algorithm.batch_query(QUERIES, K)
            assert algorithm.get_batch_results() == ids
            assert algorithm.get_additional()["payload_bytes"] == K * size
            session = algorithm._session_for(QUERIES[0], K)
            found = session.run(session.encode(QUERIES[0]))
            for place, row in enumerate(ids[0]):
                came = found.get_value(place, 1)
                if payload == "text":
                    assert came.decode() == row_text(row) and len(came) == TEXT_BYTES
                else:
                    assert (np.frombuffer(came[4:], ">f4") == TRAIN[row]).all()


def test_texts_lie_in_the_rows_and_leave_the_planner_as_it_is(plugin_server: Server):
    with fitted("text") as algorithm, plugin_server.connect() as connection:
        toast, pages = connection.execute(
            "SELECT pg_relation_size(reltoastrelid), pg_relation_size(oid) FROM pg_class"
            f" WHERE oid = '{algorithm.table_name}'::regclass"
        ).fetchone()
        kept = connection.execute(
            "SELECT min(pg_column_size(ann_payload)), max(pg_column_compression(ann_payload)),"
            f" count(DISTINCT ann_payload) FROM {algorithm.table_name}"
        ).fetchone()
        known = connection.execute(
            "SELECT count(*) FROM pg_stats WHERE tablename = %s", [algorithm.table_name.split(".")[1]]
        ).fetchone()
    assert toast == 0 and pages > len(TRAIN) * TEXT_BYTES
    assert kept == (TEXT_BYTES + 4, None, len(TRAIN)) and known == (0,)


def test_candidates_and_filters_have_a_payload_too(plugin_server: Server):
    with fitted("text") as algorithm:
        algorithm.set_query_settings({"hnsw.ef_search": 100}, rerank=50)
        sql = algorithm.statement(QUERIES[0], K).sql
        assert sql.startswith("SELECT id, ann_payload FROM (SELECT id, embedding, ann_payload FROM ")
        algorithm.time_queries(QUERIES[:3], K)
        assert algorithm.get_additional()["payload_bytes"] == K * TEXT_BYTES
    queries = [FilteredVector(query, one("uniform", "<", 5 * i)) for i, query in enumerate(QUERIES)]
    with fitted("vector", filtered=True, is_exact=True) as vectors:
        true = vectors.time_queries(queries, K)[1]
    with fitted("text", filtered=True, is_exact=True) as texts:
        assert texts.time_queries(queries, K)[1] == true and not true[0] and len(true[-1]) == K
        rows = np.mean([len(ids) for ids in true])
        assert texts.get_additional()["payload_bytes"] == pytest.approx(rows * TEXT_BYTES)
    with pytest.raises(PostgresError, match="payload is 'rows': use text or vector"), fitted("rows"):
        pass


def test_a_table_with_partitions_has_no_texts(plugin_server: Server):
    message = "a table with partitions has no texts: use --payload vector"
    with pytest.raises(PostgresError, match=message), fitted("text", filtered=True, division="partitions"):
        pass


def test_a_text_that_would_move_the_vector_is_refused():
    assert AttributedColumn(VectorColumn(1536), [], has_texts=True).is_plain
    with pytest.raises(PostgresError, match=r"vector\(1900\) with a text of 1,024 bytes does not fit a page"):
        AttributedColumn(VectorColumn(1900), [], has_texts=True)
    wide = AttributedColumn(VectorColumn(3000), [], has_texts=True)
    assert not wide.is_plain  # the vector lies elsewhere anyway


def hnsw_job(procedure):
    """Return a job of one point on a dataset of 8 dimensions."""
    hnsw = Definition(
        *("hnsw", "PGVectorHNSW", "ann_benchmarks.algorithms.pgvector_hnsw", "t", ["euclidean", BUILD]),
        *([[50]], False),
    )
    return Job(hnsw, [[50]], "tiny", K, procedure, Execution(payload=procedure.payload, show_progress=False))


def result_of(events):
    (done,) = [event for event in events if isinstance(event, PointDone)]
    (run,) = load_runs([done.path])
    assert run.metrics["recall"] > 0.9 and run.path.parent.name == run.series.folder
    return run


SKEWED = Load(2, seconds=0.3, order=QueryOrder.parse("zipf:1.1"))


@pytest.mark.parametrize("how", [{}, {"load": SKEWED, "warmup": Warmup("queries", 10)}])
def test_a_point_states_the_bytes_of_a_query(plugin_server: Server, workspace, how):
    procedure = Procedure(1, payload="text", **how)
    run = result_of(events_of(hnsw_job(procedure)))
    assert run.attrs["payload_bytes"] == K * TEXT_BYTES
    assert run.series.payload == "text" and run.series.folder.endswith("payload-text")
    assert str(procedure).endswith(", with the payload text")


def test_contenders_in_turn_state_them_too(plugin_server: Server, workspace):
    how = {"warmup": Warmup("queries", 10), "rounds": Rounds(2), "payload": "vector"}
    jobs = [hnsw_job(Procedure(1, load=load, **how)) for load in (None, Load(2, seconds=0.2))]
    contenders, events = Contenders(), {job.label(): [] for job in jobs}
    turns = [[Turn(job.label(), 0, number) for job in jobs] for number in (1, 2)]
    requests = [Enter(JobRequest(job)) for job in jobs], *turns, [Keep(job.label(), {}) for job in jobs]
    try:
        for request in chain(*requests):
            name = request.request.job.label() if isinstance(request, Enter) else request.job
            contenders.carry_out(request, events[name].append)
    finally:
        contenders.close()
    runs = [result_of(reported) for reported in events.values()]
    assert [run.attrs["payload_bytes"] for run in runs] == [K * (4 + 4 * 8)] * 2
    assert [run.series.folder for run in runs] == ["hnsw-payload-vector", "hnsw-c2-payload-vector"]


def test_a_plugin_without_a_payload_is_refused():
    with pytest.raises(UserError, match="^object returns ids alone: leave --payload out$"):
        Plugin(object()).set_payload("text")
