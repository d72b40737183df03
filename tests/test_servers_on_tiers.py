"""Shards and replicas under tiers: each server has the memory of the tier, in control groups of its own."""

import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.servers.programs import ServerPrograms
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB
from ann_benchmarks.definitions.servers import (
    ONE_SERVER,
    Replicas,
    Servers,
    Shards,
)
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.submission.checking.expected import tier_facts
from ann_benchmarks.views.memory import contender
from ann_benchmarks.views.tiers import tier_runs, tier_tables
from tiers import parse
from tiers.groups import ControlGroup, SeveralGroups
from tiers.holding import Holding
from tiers.ledger import Ledger
from tiers.options import find_server
from tiers.parse import check_capacity
from tiers.sweep import Sweep
from tiers.tier import SimulatedServer, Tier

from .programs import until
from .report_data import make_run
from .test_tier_memory import TAKE
from .test_tiers import defined, folder, groups, points, started, swept
from .tier_holds import group_of, inside, line_of, members, needs_memory_group

__all__ = ["folder"]
pytestmark = pytest.mark.thorough
HNSW = defined("pgvector_hnsw", "PGVectorHNSW")
BUFFERS, RAM = 32 * MB, 160 * MB
SMALL = Tier(BUFFERS, RAM)
OPTIONS = [
    *("--algorithm", "hnsw", "--clients", "2", "--tiers", "32MB:160MB", "--tier-method", "cgroup"),
    *("--duration", "0.5", "--warmup", "50"),
]
SHARDS = ["--shards", "none,2", "--shard-engine", "client"]
REPLICAS = ["--replicas", "none,1"]


def groups_of(pid: int) -> set[Path]:
    """Those that a process has made: other tests have some, too."""
    own = group_of(pid)
    return {group for group in groups() if group.name == own.name or group.name.startswith(f"{own.name}-")}


def buffers_of(pid: int) -> set[str]:
    """The shared_buffers that a postmaster was started with; nothing of other processes."""
    with suppress(psutil.Error):
        return {word for word in psutil.Process(pid).cmdline() if word.startswith("--shared_buffers=")}
    return set()


@needs_memory_group
def test_each_server_has_a_group_with_the_memory_of_the_tier(tmp_path):
    with Holding("cgroup", [tmp_path] * 3, Ledger(tmp_path / "ledger")) as holding:
        holding.apply(Tier(ram=RAM))
        own = group_of(os.getpid())
        made = [own, own.with_name(f"{own.name}-1"), own.with_name(f"{own.name}-2")]
        assert groups_of(os.getpid()) == set(made)
        (pattern,) = holding.groups
        assert pattern == own.with_name(f"{own.name}{{server}}") / "cgroup.procs"
        each, both = (holding.memory_of(one.row_holders) for one in (Shards(2, "client"), Replicas(1)))
        assert isinstance(each, SeveralGroups) and [one.folder for one in each.groups] == made[1:]
        assert isinstance(both, SeveralGroups) and [one.folder for one in both.groups] == made[:2]
        assert all(one.available() == pytest.approx(RAM, rel=0.03) for one in each.groups)
        holding._stop_keepers()
        with inside([made[2] / "cgroup.procs"], TAKE, "private", 64) as backend:
            line_of(backend)
            # The server that is off stands for all, and the others have what they had.
            assert each.available() == pytest.approx(RAM - 64 * MB, rel=0.1)
            assert each.groups[0].available() == pytest.approx(RAM, rel=0.03)
            one = holding.memory_of(Shards(1, "client").row_holders)
            assert one is not None and one.available() == pytest.approx(RAM, rel=0.03)
        assert isinstance(holding.memory_of(ONE_SERVER.row_holders), ControlGroup) and each.kills() == 0
    assert not groups_of(os.getpid())


@pytest.mark.parametrize(
    ("options", "marks", "names", "is_killed_before"),
    [
        (SHARDS, ["", "-1", "-2"], ["hnsw", "hnsw-shards2-client"], False),
        (REPLICAS, ["", "-1"], ["hnsw", "hnsw-replicas1"], True),
    ],
)
@needs_memory_group
def test_servers_of_one_size_are_measured_also_after_a_kill(
    folder: Path, options: list[str], marks: list[str], names: list[str], is_killed_before: bool
):
    shutil.rmtree(folder / "results", ignore_errors=True)  # of a try before
    if is_killed_before:
        with started(folder, *OPTIONS, *options) as process:
            own = group_of(process.pid)
            last = own.with_name(f"{own.name}{marks[-1]}")
            until(lambda: last.exists() and len(members(last)) > 4, 120)
            running = members(own) | members(last)
            process.kill()
            process.communicate()
        until(partial(lambda pid: not groups_of(pid), process.pid))
        until(lambda: not any(map(psutil.pid_exists, running)))
    found: dict[str, set[int]] = {}
    buffers: set[str] = set()
    with started(folder, *OPTIONS, *options) as process:
        own = group_of(process.pid)
        while process.poll() is None:
            for group in groups_of(process.pid):
                known = found.setdefault(group.name.removeprefix(own.name), set())
                with suppress(OSError):  # it is just given back
                    new = members(group) - known
                    buffers = buffers.union(*map(buffers_of, new))
                    known |= new
            time.sleep(0.05)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    # Each server has processes of its own in its own group: postmaster, workers, and the clients' sessions.
    assert set(found) == set(marks) and all(len(each) > 4 for each in found.values())
    assert not set.intersection(*found.values()) and not groups_of(process.pid)
    assert buffers == {"--shared_buffers=32MB"}
    done = points(folder)
    assert [re.sub("-c2.*", "", name) for name in done] == names
    for name, point in done.items():
        assert point["shared_buffers"] == (2 if "shards" in name else 1) * BUFFERS
        assert point["tier_shared_buffers"] == BUFFERS and point["tier_ram"] == RAM
        assert point["tier_available"] == pytest.approx(RAM, rel=0.05) and "memory_divided_by" not in point
        assert "-cgroup-sb32MB-ram160MB" in name
    assert "nothing to do" in swept(folder, *OPTIONS, *options)


@pytest.mark.parametrize(
    ("tier", "these", "said"),
    [
        (Tier(16 * MB, 45 * MB, 1), Replicas(1), ""),
        (Tier(16 * MB, 45 * MB), Replicas(2), "0.1 GB .* for a primary and 2 replicas: leave out 16"),
        (Tier(cpus=2), Replicas(1), "2 CPUs for a primary and 1 replica: leave out 2cpus$"),
        (Tier(cpus=1), Replicas(2), "2 CPUs for a primary and 2 replicas: leave out 1cpus$"),
        (Tier(cpus=1), Shards(4, "client"), "for 4 shards and what asks them: leave out 1cpus$"),
        (Tier(ram=1 << 40), Shards(64, "client"), "available for 64 shards: leave out all:1024GB$"),
    ],
)
def test_a_machine_that_is_too_small_for_all_of_them_is_refused(
    monkeypatch: pytest.MonkeyPatch, tier: Tier, these: Servers, said: str
):
    monkeypatch.setattr(parse, "memory_bytes", lambda: 100 * MB)
    monkeypatch.setattr(parse, "usable_cores", lambda: 2)
    if not said:
        return check_capacity([tier], "cgroup", these)
    with pytest.raises(UserError, match=said):
        check_capacity([tier], "cgroup", these)


@pytest.mark.parametrize(
    ("these", "folders"),
    [
        (Shards(2, "client"), ["pg", "pg-shard1", "pg-shard2"]),
        (Replicas(2), ["pg", "pg-replica1", "pg-replica2"]),
    ],
)
def test_servers_have_folders_of_their_own_and_no_huge_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, these: Servers, folders: list[str]
):
    for name, value in (("_shards", {}), ("_replicas", {}), ("_current", None)):
        monkeypatch.setattr(servers, name, value)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(tmp_path / "pg"))
    server = find_server([HNSW])
    assert [path.name for path in server.folders(these.kind, these.further)] == folders
    with pytest.raises(UserError, match="each server is to have its own: use --tier-method cgroup$"):
        Sweep("32MB:160MB", "hugepages", server, these).conditions(100, 8)


def test_a_server_enters_the_groups_of_its_number(monkeypatch, tmp_path):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_GROUPS", "/a/t{server}/cgroup.procs:/b/t{server}/cgroup.procs")
    entered = [ServerPrograms(tmp_path, server_account(), tmp_path, number)._groups() for number in (0, 2)]
    assert entered == ["/a/t/cgroup.procs:/b/t/cgroup.procs", "/a/t-2/cgroup.procs:/b/t-2/cgroup.procs"]


def test_shared_buffers_are_those_of_all_servers_together():
    facts: dict[str, Any] = {"shared_buffers": 2 * BUFFERS, "tier_available": RAM}
    server = SimulatedServer(SMALL, "cgroup")
    replace(server, queried=2).check(facts)
    with pytest.raises(UserError, match="shared_buffers is 64 MB"):
        server.check(facts)
    run = make_run("hnsw", ram=2)
    series = run.series.replaced(replicas=2)
    assert tier_facts(SimpleNamespace(series=series))["shared_buffers"] == {2 * GB}  # type: ignore[arg-type]


def test_memory_of_several_servers_is_that_of_each():
    run = make_run("hnsw", ram=2)
    on_shards = replace(run, series=run.series.replaced(shards=4, shard_engine="client"))
    copied = replace(run, series=run.series.replaced(replicas=2))
    shown = [contender(one) for one in (run, on_shards, copied)]
    assert shown == ["hnsw", "hnsw-shards4-client (each server)", "hnsw-replicas2 (each server)"]
    on_tiers = tier_runs([run, copied])
    assert on_tiers[1].name == f"{on_tiers[0].name.replace('hnsw', 'hnsw-replicas2')} (each server)"
    captions = [part.caption for part in tier_tables(on_tiers, 0.95) if not isinstance(part, str)]
    assert any(caption.startswith("hnsw-replicas2 (each server), M=16") for caption in captions)
    assert Comparison(1, [copied], 0.95).place_text.endswith("shared_buffers of 1 GB for each server")
    assert not Comparison(1, [run], 0.95).place_text.endswith("for each server")
