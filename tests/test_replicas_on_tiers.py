"""Replicas under tiers: the primary and each replica have the tier's memory, in groups of their own."""

import os
import re
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.definitions.selection import with_replicas
from ann_benchmarks.plotting.tier_table import table
from ann_benchmarks.reporting.memory import contender
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.results.tiers import as_tier_run
from ann_benchmarks.submission.checking.tiers import other_server
from tiers import parse
from tiers.groups import SeveralGroups
from tiers.holding import Holding
from tiers.ledger import Ledger
from tiers.options import find_server
from tiers.parse import Servers, check_capacity
from tiers.sweep import Sweep
from tiers.tier import Tier

from .programs import until
from .report_data import GB, make_run
from .test_shards_on_tiers import BUFFERS, HNSW, RAM, groups_of
from .test_tiers import folder, points, started, swept
from .tier_holds import group_of, needs_memory_group

pytestmark = pytest.mark.thorough

__all__ = ["folder"]
TWO = Servers(replicas=2)
OPTIONS = [
    *("--algorithm", "hnsw", "--replicas", "none,1", "--clients", "2", "--tiers", "32MB:160MB"),
    *("--tier-method", "cgroup", "--duration", "0.5", "--warmup", "50"),
]


def members(group: Path) -> set[int]:
    with suppress(OSError):  # it is not there yet, or just given back
        return set(map(int, (group / "cgroup.procs").read_text().split()))
    return set()


def buffers_of(pid: int) -> set[str]:
    """The shared_buffers that a postmaster was started with; nothing of other processes."""
    with suppress(psutil.Error):
        return {word for word in psutil.Process(pid).cmdline() if word.startswith("--shared_buffers=")}
    return set()


@needs_memory_group
def test_a_primary_and_its_replica_are_servers_of_one_size_also_after_a_kill(folder: Path):
    with started(folder, *OPTIONS) as process:
        own = group_of(process.pid)
        replica = own.with_name(f"{own.name}-1")
        until(lambda: len(members(replica)) > 4, 120)
        running = members(own) | members(replica)
        process.kill()
        process.communicate()
    until(partial(lambda pid: not groups_of(pid), process.pid))
    until(lambda: not any(map(psutil.pid_exists, running)))
    found: dict[str, set[int]] = {"": set(), "-1": set()}
    buffers: dict[str, set[str]] = {"": set(), "-1": set()}
    with started(folder, *OPTIONS) as process:
        own = group_of(process.pid)
        while process.poll() is None:
            for mark in found:
                for pid in members(own.with_name(f"{own.name}{mark}")) - found[mark]:
                    found[mark].add(pid)
                    buffers[mark] |= buffers_of(pid)
            time.sleep(0.05)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert not set.intersection(*found.values()) and not groups_of(process.pid)
    assert buffers == {"": {"--shared_buffers=32MB"}, "-1": {"--shared_buffers=32MB"}}
    done = points(folder)
    assert [re.sub("-c2.*", "", name) for name in done] == ["hnsw", "hnsw-replicas1"]
    for name, point in done.items():
        assert "-cgroup-sb32MB-ram160MB" in name
        assert point["shared_buffers"] == point["tier_shared_buffers"] == BUFFERS
        assert point["tier_ram"] == RAM and point["tier_available"] == pytest.approx(RAM, rel=0.05)
        assert "memory_divided_by" not in point
    assert "nothing to do" in swept(folder, *OPTIONS)


@needs_memory_group
def test_the_memory_of_the_primary_and_of_each_replica_is_sampled(tmp_path: Path):
    with Holding("cgroup", tmp_path, Ledger(tmp_path / "ledger"), [tmp_path, tmp_path]) as holding:
        holding.apply(Tier(ram=RAM))
        both = holding.memory_of(Servers(replicas=1).with_rows)
        own = group_of(os.getpid())
        assert isinstance(both, SeveralGroups)
        assert [one.folder for one in both.groups] == [own, own.with_name(f"{own.name}-1")]
        assert holding.memory_of(Servers().with_rows) is holding.memory


def test_servers_are_counted_by_what_they_do():
    every = with_replicas([HNSW], [0, 1, 2])
    assert Servers.needed(every) == TWO and Servers.needed(every[:1]) == Servers() == Servers.needed([HNSW])
    assert (TWO.total, TWO.with_rows, TWO.queried) == (3, range(3), 2)
    shards = Servers(shards=2)
    assert (shards.total, shards.with_rows, shards.queried) == (3, range(1, 3), 2)
    assert (Servers().total, Servers().with_rows, Servers().queried) == (1, range(1), 1)


def test_a_machine_that_is_too_small_for_all_of_them_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parse, "memory_bytes", lambda: 100 * MB)
    monkeypatch.setattr(parse, "usable_cores", lambda: 2)
    check_capacity([Tier(16 * MB, 45 * MB, 1)], "cgroup", Servers(replicas=1))
    with pytest.raises(
        UserError, match="0.1 GB of memory available for a primary and 2 replicas: leave out 16MB:45MB$"
    ):
        check_capacity([Tier(16 * MB, 45 * MB)], "cgroup", TWO)
    with pytest.raises(UserError, match="2 CPUs for a primary and 1 replica: leave out 2cpus$"):
        check_capacity([Tier(cpus=2), Tier(cpus=1)], "cgroup", Servers(replicas=1))
    with pytest.raises(UserError, match="2 CPUs for a primary and 2 replicas: leave out 1cpus$"):
        check_capacity([Tier(cpus=1)], "cgroup", TWO)


def test_what_cannot_be_simulated_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(servers, "_replicas", {})
    monkeypatch.setattr(servers, "_current", None)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(tmp_path / "pg"))
    server = find_server([HNSW], None)
    assert [path.name for path in server.other_folders(0, 2)] == ["pg-replica1", "pg-replica2"]
    with pytest.raises(UserError, match="each server is to have its own: use --tier-method cgroup$"):
        Sweep("32MB:160MB", "hugepages", server, TWO).conditions(100, 8)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db.example.org")
    with pytest.raises(RuntimeError, match="tiers of replicas are of servers of our own: .* --replicas out$"):
        find_server([HNSW], "true").other_folders(0, 2)


def test_memory_of_replicas_is_that_of_each_server():
    run = make_run("hnsw", ram=2)
    copied = replace(run, series=replace(run.series, replicas=2))
    assert [contender(one) for one in (run, copied)] == ["hnsw", "hnsw-replicas2 (each server)"]
    on_tiers = [found for one in (run, copied) if (found := as_tier_run(one))]
    assert on_tiers[1].name == f"{on_tiers[0].name.replace('hnsw', 'hnsw-replicas2')} (each server)"
    assert "**hnsw-replicas2 (each server), M=16" in table("", on_tiers, 0.95, None, intervals=False)
    assert Comparison(1, [copied], 0.95).where.endswith("shared_buffers of 1 GB for each server")
    assert not Comparison(1, [run], 0.95).where.endswith("for each server")


def test_shared_buffers_in_a_bundle_are_those_of_all_replicas_together():
    run = make_run("hnsw", ram=2)
    series = replace(run.series, replicas=2)
    for size, problems in ((2 * GB, 0), (GB, 1)):
        attrs = {**run.attrs, "shared_buffers": size}
        point = SimpleNamespace(attrs=attrs, series=series, number=attrs.get)
        assert len(list(other_server(point))) == problems  # type: ignore[arg-type]
