"""The memory of a server: who used it last, whether all contenders fit, and which relations of one do."""

import math
import sys
from pathlib import Path

import psutil
import pytest

from ann_benchmarks.algorithms.postgres.catalog import relation_bytes
from ann_benchmarks.algorithms.postgres.servers import Server, caches
from ann_benchmarks.algorithms.postgres.servers.caches import (
    Warmth,
    cache_files,
    cache_room,
    fitting_relations,
    is_short,
    take_over,
)
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation

from .postgres_fixtures import started

pytestmark = pytest.mark.thorough

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

TABLE, INDEX, OTHER = "public.few", "public.few_index", "public.other"
MAKE = (
    "CREATE TABLE few AS SELECT i, repeat('x', 100) AS text FROM generate_series(1, 5000) i",
    "CREATE INDEX few_index ON few (i)",
    "CREATE TABLE other AS TABLE few",
)


@pytest.fixture
def server(made_server: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(caches, "_known", set())
    with started(made_server, lambda _: embedded_installation()) as server:
        with server.connect() as connection:
            for statement in MAKE:
                connection.execute(statement)
        yield server


def test_who_uses_a_server_is_known_until_it_ends(server: Server):
    for names, is_new in (("ab", True), ("ab", False), ("ac", True), ("ab", True), ("ab", False)):
        assert take_over(server, list(names)) == is_new
    assert take_over(server, list("ab"), "2 replicas") and not take_over(server, list("ab"), "2 replicas")
    server.restart({})
    assert take_over(server, list("ab"), "2 replicas")


def test_memory_is_short_where_all_who_take_turns_do_not_fit_beside_the_buffers(server: Server):
    with server.connect() as connection:
        [(table, index, other, buffers)] = connection.execute(
            "SELECT pg_relation_size('few'), pg_relation_size('few_index'), pg_relation_size('other'),"
            " pg_size_bytes(current_setting('shared_buffers'))"
        ).fetchall()
        assert min(table, index, other) > 0
        assert cache_room(connection, 10 * buffers) == 9 * buffers
        assert cache_room(connection, math.inf) == math.inf
        for relations, size in (
            ([], 0),
            ([TABLE, INDEX], table + index),
            ([TABLE], table + index),  # the index is still that of another one
            ([OTHER, "public.on_another_server"], table + index + other),
        ):
            take_over(server, relations)
            assert [is_short(connection, room) for room in (size - 1, size, math.inf)] == [True, False, False]
        for room, fitting in (
            (0, []), (index - 1, []), (index, [INDEX]), (table + index - 1, [INDEX]),
            (table + index, [TABLE, INDEX]), (math.inf, [TABLE, INDEX]),
        ):  # fmt: skip
            assert fitting_relations(connection, TABLE, [INDEX], room) == fitting


@on_linux
def test_what_is_too_long_for_a_page_counts_and_is_read(server: Server):
    with server.connect() as connection:
        connection.execute("CREATE TABLE long (text text STORAGE EXTERNAL)")
        connection.execute("INSERT INTO long SELECT repeat('x', 10000) FROM generate_series(1, 300)")
        assert 3_000_000 < relation_bytes(connection, "public.long") < 6_000_000
        backend = psutil.Process(connection.info.backend_pid)
        before = backend.io_counters().read_chars
        cache_files(connection, ["public.long"])
        assert backend.io_counters().read_chars - before > 3_000_000
        assert relation_bytes(connection, "public.not_there") == 0


def test_a_memory_is_filled_once_until_it_is_lost(server: Server):
    warmth, filled = Warmth(), []
    for lose in (None, None, warmth.forget, None, lambda: server.restart({}), None):
        if lose is not None:
            lose()
        warmth.ensure(server, lambda connection: filled.append(connection.info.backend_pid))
    assert len(set(filled)) == len(filled) == 3
