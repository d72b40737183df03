"""The shard engine `citus` on the real extension, where the machine has a build of it."""

import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.topology import citus
from ann_benchmarks.algorithms.postgres.topology.citus import CITUS, CitusEngine, drop_abandoned
from ann_benchmarks.algorithms.postgres.topology.citus_statement import sent_queries

from .client_answers import by_clients
from .postgres_fixtures import SMALL, copied
from .programs import temporary_folder
from .test_shards import (
    COUNT,
    QUERIES,
    TRAIN,
    K,
    fitted,
    hnsw,
    loses_the_point_with_a_shard,
    shard_servers,
    shards,
)
from .vchord_archives import copied_installation

pytestmark = pytest.mark.thorough

__all__ = ["shard_servers", "shards"]
ARCHIVES = Path(
    os.environ.get("ANN_BENCHMARKS_CITUS_ARCHIVES") or "~/.cache/ann-benchmarks/citus"
).expanduser()
LEFT = (
    "SELECT extname::text FROM pg_extension WHERE extname = 'citus'"
    " UNION SELECT relname::text FROM pg_class WHERE relname LIKE 'distributed%'"
    " UNION SELECT nspname::text FROM pg_namespace WHERE nspname = 'ann_benchmarks_citus'"
    " UNION SELECT setconfig::text FROM pg_db_role_setting WHERE setrole <> 0"
)


def installation_with_citus(folder: Path) -> Path:
    """A copy of the embedded PostgreSQL with Citus in it: of what `make install DESTDIR=...` has made."""
    major = Installation(embedded_installation()).major()
    found = sorted(ARCHIVES.glob(f"postgresql-{major}-citus*.tar.gz"))
    if not found:
        pytest.skip(f"no build of Citus for PostgreSQL {major} in {ARCHIVES} (ANN_BENCHMARKS_CITUS_ARCHIVES)")
    copy = copied_installation(folder)
    installation = Installation(copy)
    with tarfile.open(found[-1]) as archive:
        for member in archive:
            kind = {".so": installation.libraries, ".sql": installation.extensions,
                    ".control": installation.extensions}.get(Path(member.name).suffix)  # fmt: skip
            if member.isfile() and kind and "decoders" not in member.name:
                content = archive.extractfile(member)
                assert content is not None
                (kind / Path(member.name).name).write_bytes(content.read())
    return copy


@pytest.fixture(scope="module")
def servers_with_citus(made_server):
    """A coordinator, 0, and two shards."""
    with temporary_folder() as folder:
        programs = installation_with_citus(folder) / "bin"
        found = {
            number: LocalServer(programs, copied(made_server, folder / str(number)), number)
            for number in range(COUNT + 1)
        }
        for server in found.values():
            server.start(SMALL)
        yield found
        for server in found.values():
            server.stop()


@pytest.fixture
def with_citus(servers_with_citus, monkeypatch):
    """The servers that plug-ins find."""
    shards = dict(servers_with_citus)
    monkeypatch.setattr(servers, "_current", shards.pop(0))
    monkeypatch.setattr(servers, "_shards", shards)
    return servers_with_citus


def skip_where_it_is_embedded():
    if (Installation(embedded_installation()).extensions / "citus.control").exists():
        pytest.skip("the embedded PostgreSQL has Citus")


def left(servers):
    found = []
    for server in servers.values():
        with server.connect() as connection:
            found += [name for (name,) in connection.execute(LEFT)]
    return found


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip", "manhattan"])
def test_exact_answers_are_those_of_one_server(with_citus, metric):
    with fitted("", PGVectorExact(metric)) as alone:
        true = alone.time_queries(QUERIES, K)[1]
    with fitted("citus", PGVectorExact(metric)) as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == true
        if metric == "euclidean":
            assert by_clients(algorithm, QUERIES)[0] == true
    assert left(with_citus) == []


@pytest.mark.parametrize("form", ["vector", "halfvec", "bit_hamming"])
def test_every_shard_uses_the_index_that_the_client_uses(with_citus, form):
    with fitted("client", hnsw(form), 150) as algorithm:
        scattered = algorithm.time_queries(QUERIES, K)[1]
    with fitted("citus", hnsw(form), 150) as algorithm:
        found = algorithm.time_queries(QUERIES, K)[1]
        facts = algorithm.get_additional()
    assert facts["index_reused"] and "Citus Adaptive" in facts["plan"]
    plans = json.loads(facts["shard_plans"])
    assert len(plans) == COUNT and all("Index Scan" in json.dumps(plan) for plan in plans)
    assert json.loads(facts["shard_settings"])["hnsw.ef_search"] == "150"
    if form == "bit_hamming":  # which re-ranks candidates of all shards together
        shared = np.mean([len({*a} & {*b}) / K for a, b in zip(found, scattered, strict=True)])
        assert shared > 0.8
    else:
        assert found == scattered


def test_settings_reach_the_shards_and_are_read_back(with_citus, monkeypatch):
    with fitted("citus", hnsw(), 60) as algorithm:
        algorithm.time_queries(QUERIES[:1], K)
        algorithm.set_query_arguments(70)
        algorithm.time_queries(QUERIES[:1], K)
        assert json.loads(algorithm.get_additional()["shard_settings"])["hnsw.ef_search"] == "70"
        monkeypatch.setattr(CitusEngine, "use", lambda *given: None)
        algorithm.set_query_arguments(80)
        with pytest.raises(PostgresError, match="shard 1 runs with hnsw.ef_search = 70 where 80 is expected"):
            algorithm.time_queries(QUERIES[:1], K)


def test_a_shard_that_dies_loses_the_point_and_the_next_goes_on(with_citus):
    loses_the_point_with_a_shard("citus", with_citus)


def test_what_a_killed_run_has_left_is_dropped_before_anything_else(with_citus, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(citus, "drop_citus", lambda connection: None)
        with fitted("citus"):
            pass
    assert len(left(with_citus)) > 3
    for server in with_citus.values():
        server._required_libraries.remove(CITUS)
        server.restart(SMALL)
        with server.connect() as connection:
            drop_abandoned(connection)
    assert left(with_citus) == []


def test_a_part_that_is_still_its_own_table_is_dropped(with_citus, monkeypatch):
    with fitted("citus") as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        (part, *_) = algorithm._indexed._engine._parts
        monkeypatch.setattr(citus, "drop_citus", lambda connection: None)
    monkeypatch.undo()
    monkeypatch.setattr(servers, "_current", with_citus[0])
    monkeypatch.setattr(servers, "_shards", {number: with_citus[number] for number in range(1, COUNT + 1)})
    with with_citus[1].connect() as connection:  # as where a run was killed before it made the view
        connection.execute(f"DROP VIEW {part}; CREATE TABLE {part} (id int)")
    with fitted("citus") as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == true
    assert left(with_citus) == []


def test_a_server_without_it_is_refused(shards):
    skip_where_it_is_embedded()
    with (
        pytest.raises(PostgresError, match="^shard 1 of 2: .*'citus': build it .* or use another"),
        fitted("citus", train=TRAIN),
    ):
        pass


def test_a_plan_that_asks_for_too_much_is_refused():
    def plan(*queries):
        return {"Distributed Query": {"Job": {"Tasks": [{"Query": query} for query in queries]}}}

    whole = "SELECT id FROM ann_benchmarks_citus.distributed_{} distributed ORDER BY d LIMIT '10'::bigint"
    first, second = whole.format(1), whole.format(2)
    parts = [f"ann_benchmarks_citus.distributed_{number}" for number in (1, 2)]
    assert sent_queries({"Plans": [plan(second, first)]}, parts) == [first, second]
    with pytest.raises(PostgresError, match="Citus asks 1 of 2 shards"):
        sent_queries(plan(first), parts)
    with pytest.raises(PostgresError, match="does not send order and limit"):
        sent_queries(plan(first.partition(" LIMIT")[0]), parts[:1])
