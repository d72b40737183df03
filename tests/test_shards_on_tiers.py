"""Shards under tiers: each server has the memory of the tier, in control groups of its own."""

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.servers.programs import ServerPrograms
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.reporting.memory import contender
from tiers.groups import ControlGroup, SeveralGroups
from tiers.holding import Holding
from tiers.ledger import Ledger
from tiers.options import find_server
from tiers.parse import Servers, check_capacity
from tiers.sweep import Sweep
from tiers.tier import SimulatedServer, Tier

from .report_data import make_run
from .test_tier_memory import TAKE
from .test_tiers import defined, folder, groups, points, started, swept
from .tier_holds import group_of, inside, line_of, needs_memory_group

pytestmark = pytest.mark.thorough

__all__ = ["folder"]
HNSW = defined("pgvector_hnsw", "PGVectorHNSW")
BUFFERS, RAM = 32 * MB, 160 * MB
SMALL = Tier(BUFFERS, RAM)


def groups_of(pid: int) -> set[Path]:
    """Those that a process has made: other tests have some, too."""
    own = group_of(pid)
    return {group for group in groups() if group.name == own.name or group.name.startswith(f"{own.name}-")}


@needs_memory_group
def test_each_server_has_a_group_with_the_memory_of_the_tier(tmp_path):
    with Holding("cgroup", tmp_path, Ledger(tmp_path / "ledger"), [tmp_path, tmp_path]) as holding:
        holding.apply(Tier(ram=RAM))
        own = group_of(os.getpid())
        made = [own, own.with_name(f"{own.name}-1"), own.with_name(f"{own.name}-2")]
        assert groups_of(os.getpid()) == set(made)
        (pattern,) = holding.groups
        assert pattern == own.with_name(f"{own.name}{{server}}") / "cgroup.procs"
        each = holding.memory_of(Servers(shards=2).with_rows)
        assert isinstance(each, SeveralGroups) and [one.folder for one in each.groups] == made[1:]
        assert all(one.available() == pytest.approx(RAM, rel=0.03) for one in each.groups)
        for keeper in holding._keepers:
            keeper.stop()
        with inside([made[2] / "cgroup.procs"], TAKE, "private", 64) as backend:
            line_of(backend)
            # The server that is off stands for all, and the others have what they had.
            assert each.available() == pytest.approx(RAM - 64 * MB, rel=0.1)
            assert each.groups[0].available() == pytest.approx(RAM, rel=0.03)
            one = holding.memory_of(Servers(shards=1).with_rows)
            assert one is not None and one.available() == pytest.approx(RAM, rel=0.03)
        assert isinstance(holding.memory_of(Servers().with_rows), ControlGroup) and each.kills() == 0
    assert not groups_of(os.getpid())


@needs_memory_group
def test_one_server_and_shards_are_measured_on_servers_of_one_size(folder: Path):
    options = [
        *("--algorithm", "hnsw", "--shards", "none,2", "--shard-engine", "fdw,client", "--clients", "2"),
        *("--tiers", "32MB:160MB", "--tier-method", "cgroup", "--duration", "0.5", "--warmup", "50"),
    ]
    members: dict[str, set[str]] = {}
    shutil.rmtree(folder / "results", ignore_errors=True)  # of a try before
    with started(folder, *options) as process:
        own = group_of(process.pid)
        while process.poll() is None:
            for group in groups_of(process.pid):
                with suppress(OSError):  # it is just given back
                    found = (group / "cgroup.procs").read_text().split()
                    members.setdefault(group.name.removeprefix(own.name), set()).update(found)
            time.sleep(0.05)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    # Each server has processes of its own in its own group: postmaster, workers, and the clients' sessions.
    assert set(members) == {"", "-1", "-2"} and all(len(found) > 4 for found in members.values())
    assert not set.intersection(*members.values()) and not groups_of(process.pid)
    found = points(folder)
    assert [re.sub("-c2.*", "", name) for name in found] == [
        "hnsw",
        "hnsw-shards2-client",
        "hnsw-shards2-fdw",
    ]
    for name, point in found.items():
        assert point["shared_buffers"] == (2 if "shards" in name else 1) * BUFFERS
        assert point["tier_shared_buffers"] == BUFFERS and point["tier_ram"] == RAM
        assert point["tier_available"] == pytest.approx(RAM, rel=0.05)
        assert "-cgroup-sb32MB-ram160MB" in name
    assert "nothing to do" in swept(folder, *options)


def test_what_cannot_be_simulated_is_refused_before_anything_is_built(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "_shards", {})
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(tmp_path))
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    with pytest.raises(UserError, match=f"for 4 shards and what asks them: leave out {cpus}cpus$"):
        check_capacity([Tier(cpus=cpus)], "cgroup", Servers(shards=4))
    with pytest.raises(UserError, match="memory available for 64 shards: leave out all:1024GB$"):
        check_capacity([SMALL, Tier(ram=1 << 40)], "cgroup", Servers(shards=64))
    sweep = Sweep("32MB:160MB", "hugepages", find_server([HNSW], None), Servers(shards=2))
    with pytest.raises(UserError, match="each server is to have its own: use --tier-method cgroup$"):
        sweep.conditions(100, 8)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SHARD_HOSTS", "db1,db2")
    with pytest.raises(RuntimeError, match="tiers simulate servers of our own: unset .*SHARD_HOSTS"):
        find_server([HNSW], None).other_folders(2, 0)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db.example.org")
    with pytest.raises(RuntimeError, match="tiers of shards are of servers of our own"):
        find_server([HNSW], "true").other_folders(2, 0)


def test_shards_have_folders_and_groups_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "_shards", {})
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(tmp_path / "pg"))
    names = [path.name for path in find_server([HNSW], None).other_folders(2, 0)]
    assert names == ["pg-shard1", "pg-shard2"]
    monkeypatch.setenv("ANN_BENCHMARKS_PG_GROUPS", "/a/t{server}/cgroup.procs:/b/t{server}/cgroup.procs")
    entered = [ServerPrograms(tmp_path, server_account(), tmp_path, number)._groups() for number in (0, 2)]
    assert entered == ["/a/t/cgroup.procs:/b/t/cgroup.procs", "/a/t-2/cgroup.procs:/b/t-2/cgroup.procs"]


def test_shared_buffers_are_those_of_all_shards_together():
    facts: dict[str, Any] = {"shared_buffers": 2 * BUFFERS, "tier_available": RAM}
    server = SimulatedServer(SMALL, "cgroup")
    replace(server, queried=2).check(facts)
    with pytest.raises(UserError, match="shared_buffers is 64 MB"):
        server.check(facts)


def test_memory_of_shards_is_that_of_each_server():
    run = make_run("hnsw")
    on_shards = replace(run, series=replace(run.series, shards=4, shard_engine="fdw"))
    assert [contender(one) for one in (run, on_shards)] == ["hnsw", "hnsw-shards4-fdw (each server)"]
