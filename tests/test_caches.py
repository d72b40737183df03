"""What a server's memory holds: whose turn it was, whether all who take turns fit, and what of one does."""

import math
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres import caches
from ann_benchmarks.algorithms.postgres.caches import Warmth, is_short, take_over, that_fit
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation

from .postgres_fixtures import own_server

TABLE, INDEX, OTHER = "public.few", "public.few_index", "public.other"
MAKE = (
    "CREATE TABLE few AS SELECT i, repeat('x', 100) AS text FROM generate_series(1, 5000) i",
    "CREATE INDEX few_index ON few (i)",
    "CREATE TABLE other AS TABLE few",
)


@pytest.fixture
def server(made_server: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(caches, "_known", set())
    with own_server(embedded_installation() / "bin", made_server) as server:
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
        for relations, size in (
            ([], 0),
            ([TABLE, INDEX], table + index),
            ([TABLE], table + index),  # the index is still that of another one
            ([OTHER, "public.on_another_server"], table + index + other),
        ):
            take_over(server, relations)
            assert [is_short(connection, ram) for ram in (size + buffers - 1, size + buffers, math.inf)] == [
                True, False, False,
            ]  # fmt: skip
        for ram, fitting in (
            (0, []), (index - 1, []), (index, [INDEX]), (table + index - 1, [INDEX]),
            (table + index, [TABLE, INDEX]), (math.inf, [TABLE, INDEX]),
        ):  # fmt: skip
            assert that_fit(connection, TABLE, [INDEX], ram) == fitting


def test_a_memory_is_filled_once_until_it_is_lost(server: Server):
    warmth, filled = Warmth(), []
    for lose in (None, None, warmth.forget, None, lambda: server.restart({}), None):
        if lose is not None:
            lose()
        warmth.ensure(server, lambda connection: filled.append(connection.info.backend_pid))
    assert len(set(filled)) == len(filled) == 3
