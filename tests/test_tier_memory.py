"""What is available, and that it stays as much while processes come and take memory."""

import pickle
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.machine import drop_from_cache
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB
from ann_benchmarks.jobs.events import Note, PointFailed
from ann_benchmarks.measure import job as measuring
from ann_benchmarks.measure.observed import Kills
from ann_benchmarks.measure.points import Points
from ann_benchmarks.measure.rounds import EnteredJob, Turn
from tiers import groups, locked_memory, machine
from tiers.groups import ControlGroup, Keeper, keep_limit
from tiers.holding import Holding
from tiers.ledger import Ledger, own_hold
from tiers.locked_memory import LockedMemory
from tiers.machine import WholeMachine, meminfo
from tiers.tier import SimulatedServer, Tier

from .programs import until
from .tier_holds import SOME_FOLDER, inside, line_of, members, needs_huge_pages, needs_memory_group, program

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")]

TAKE = """
    import mmap, sys
    size = int(sys.argv[3]) << 20
    flags = mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if sys.argv[2] == "shared" else mmap.MAP_PRIVATE)
    taken = mmap.mmap(-1, size, flags=flags)
    for page in range(0, size, 4096): taken[page] = 1
    print("taken", flush=True)
    sys.stdin.read()
"""
READ = """
    import sys
    for _ in range(2):
        with open(sys.argv[2], "rb", buffering=0) as file:
            while file.read(1 << 20): pass
    print("read", flush=True)
    sys.stdin.read()
"""


def test_shared_buffers_count_as_available_on_the_whole_machine(monkeypatch):
    monkeypatch.setattr(machine, "meminfo", lambda: {"MemAvailable": 5 * GB, "Shmem": 3 * GB})
    assert WholeMachine(shared_before=GB).available() == 7 * GB
    assert WholeMachine(shared_before=4 * GB).available() == 5 * GB  # others gave some back
    assert WholeMachine(shared_before=GB, buffers=GB).available() == 6 * GB  # the rest holds no data


def group_of_version_1(folder: Path) -> ControlGroup:
    (folder / "memory.limit_in_bytes").write_text(f"{GB}\n")
    (folder / "memory.kmem.usage_in_bytes").write_text(f"{10 * MB}\n")
    (folder / "memory.stat").write_text(f"rss 1\ntotal_rss {90 * MB}\ntotal_shmem {256 * MB}\n")
    return ControlGroup(folder, 1)


def group_of_version_2(folder: Path, kernel: str = f"kernel {10 * MB}") -> ControlGroup:
    (folder / "memory.max").write_text(f"{GB}\n")
    (folder / "memory.stat").write_text(f"anon {90 * MB}\nshmem {256 * MB}\n{kernel}\n")
    return ControlGroup(folder, 2)


@pytest.mark.parametrize("make", [group_of_version_1, group_of_version_2])
def test_a_group_has_its_limit_less_what_processes_and_kernel_take(make, tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "meminfo", lambda: {"MemAvailable": 20 * GB})
    group = pickle.loads(pickle.dumps(make(tmp_path)))
    assert group.limit() == GB
    assert group.overhead() == 100 * MB
    assert group.available() == GB - 100 * MB
    # What connections share beside shared_buffers holds no data.
    assert replace(group, buffers=200 * MB).overhead() == 156 * MB
    assert replace(group, buffers=200 * MB).available() == GB - 156 * MB


def test_a_group_of_a_kernel_that_adds_nothing_up(tmp_path):
    parts = f"slab {4 * MB}\nkernel_stack {MB}\npagetables {3 * MB}\npercpu {2 * MB}"
    assert group_of_version_2(tmp_path, parts).overhead() == 100 * MB


def test_a_group_has_no_more_than_the_machine_and_may_have_no_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "meminfo", lambda: {"MemAvailable": 100 * MB})
    assert group_of_version_1(tmp_path).available() == 356 * MB
    (tmp_path / "memory.max").write_text("max\n")
    assert ControlGroup(tmp_path, 2).limit() == groups.UNLIMITED


def test_processes_that_the_system_has_ended_are_counted(tmp_path):
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (tmp_path / "memory.events").write_text("low 0\noom 5\noom_kill 3\n")
    assert [ControlGroup(tmp_path, version).kills() for version in (1, 2)] == [2, 3]
    server = SimulatedServer(Tier(64 * MB, 512 * MB), "cgroup", ControlGroup(tmp_path, 1))
    kills = Kills(server)
    assert kills.reason() == ""
    (tmp_path / "memory.oom_control").write_text("oom_kill 3\n")
    assert kills.reason().startswith("; the 512 MB of RAM of tier 64MB:512MB did not suffice, and the system")
    assert kills.reason() == "" == Kills(None).reason()
    (tmp_path / "memory.oom_control").unlink()
    assert server.kills() == 0


@pytest.mark.parametrize(
    ("failures", "kills", "said"), [(1, 1, [Note]), (2, 2, [Note, PointFailed]), (1, 0, [PointFailed])]
)
def test_a_point_whose_memory_ran_out_is_tried_once_more(failures, kills, said, monkeypatch):
    tries, events, recovered = [], [], []

    def measure_point(self, query_arguments):
        tries.append(query_arguments)
        if len(tries) <= failures:
            raise PostgresError("the connection was lost")

    monkeypatch.setattr(Points, "measure_point", measure_point)
    points = Points.__new__(Points)
    points.conditions = SimpleNamespace(
        kills=lambda: min(len(tries), kills), shortage=lambda: "1 MB did not suffice"
    )
    points.kills = Kills(points.conditions)
    points.job = SimpleNamespace(points=[[40]], label=lambda arguments: "hnsw(40)")
    points.plugin = SimpleNamespace(can_recover=True, recover=lambda: recovered.append(1))
    points.report = events.append
    points.measure_all()
    assert [type(event) for event in events] == said and len(recovered) == failures
    texts = [getattr(event, "text", None) or event.reason for event in events]
    assert all(("the connection was lost; 1 MB did not suffice" in text) == bool(kills) for text in texts)
    assert len(tries) == (2 if kills else 1)


def lost(*arguments, **more):
    raise PostgresError("the connection was lost")


class Killing:
    """Stands in for a tier whose limit ends a process between any two looks."""

    done, facts = 0, {}

    def kills(self) -> int:
        self.done += 1
        return self.done

    def shortage(self) -> str:
        return "1 MB did not suffice"


def test_a_build_and_a_turn_whose_memory_ran_out_say_so_too(monkeypatch):
    conditions, events = Killing(), []
    request = SimpleNamespace(all_facts={}, conditions=conditions, job=None)
    monkeypatch.setattr(measuring, "_build", lost)
    with pytest.raises(UserError, match=r"^the connection was lost; 1 MB did not suffice$"):
        measuring.build(request, None, None, None, events.append)
    request.conditions = None
    with pytest.raises(PostgresError, match=r"^the connection was lost$"):
        measuring.build(request, None, None, None, events.append)
    entered = EnteredJob.__new__(EnteredJob)
    entered.job = SimpleNamespace(points=[[40]], label=lambda arguments: "hnsw(40)")
    store = SimpleNamespace(job=SimpleNamespace(path=lambda arguments: Path("nowhere")))
    entered.points = SimpleNamespace(kills=Kills(conditions), store=store)
    entered.contenders, entered._failed = {}, set()
    entered._report, entered._active = events.append, lost
    entered._plugin = SimpleNamespace(can_recover=True, recover=lambda: None, rest=lambda: None)
    entered.take_turn(Turn("hnsw", 0, 1), ())
    assert [event.reason for event in events] == ["the connection was lost; 1 MB did not suffice"]


@needs_memory_group
def test_a_process_that_takes_more_than_there_is_is_ended_and_counted(tmp_path):
    with Holding("cgroup", SOME_FOLDER, Ledger(tmp_path)) as holding:
        holding.apply(Tier(ram=64 * MB))
        holding._stop_keepers()
        before = holding.memory.kills()
        with inside(holding.groups, TAKE, "private", 256) as backend:
            until(lambda: backend.poll() is not None)
        assert holding.memory.kills() == before + 1


@needs_memory_group
def test_what_backends_take_comes_on_top_and_shared_buffers_do_not(tmp_path):
    with Holding("cgroup", SOME_FOLDER, Ledger(tmp_path)) as holding:
        holding.apply(Tier(ram=256 * MB))
        holding._stop_keepers()
        group = holding.memory
        assert isinstance(group, ControlGroup)
        with inside(holding.groups, TAKE, "shared", 64) as server:
            line_of(server)
            assert members(group.folder) == {server.pid}
            assert group.shared() > 60 * MB
            assert group.available() > 230 * MB
            with inside(holding.groups, TAKE, "private", 64) as backend:
                line_of(backend)
                assert group.available() < 195 * MB
                keep_limit(group, 256 * MB)
                assert abs(group.available() - 256 * MB) < 9 * MB
            until(lambda: members(group.folder) == {server.pid})
            assert group.available() > 300 * MB
            keep_limit(group, 256 * MB)
            assert abs(group.available() - 256 * MB) < 9 * MB


@pytest.fixture
def disk_folder():
    """A folder whose files are in the page cache; those of a tmpfs count as shared memory."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        kinds = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
        mount = next(parent for parent in Path(folder).parents if str(parent) in kinds)
        if kinds[str(mount)] == "tmpfs":
            pytest.skip("/var/tmp is in memory")
        yield Path(folder)


@needs_memory_group
def test_what_is_available_is_what_of_the_data_stays_cached(tmp_path, disk_folder):
    data, buffers, ram = disk_folder / "data", 16 * MB, 96 * MB
    data.write_bytes(bytes(256 * MB))
    assert drop_from_cache(disk_folder)  # pages that this process keeps cached are not charged to the reader
    with Holding("cgroup", [tmp_path], Ledger(tmp_path / "ledger")) as holding:
        holding.apply(Tier(shared_buffers=buffers, ram=ram))
        group = holding.memory
        with inside(holding.groups, TAKE, "shared", 40) as server:  # 24 MB more than shared_buffers
            line_of(server)
            until(lambda: abs(group.available() / ram - 1) < 0.03)
            with inside(holding.groups, READ, data) as reader:
                line_of(reader)
                stat = group.numbers("memory.stat")
                cache, shared = ("total_cache", "total_shmem") if group.version == 1 else ("file", "shmem")
                cached = stat[cache] - stat[shared] + buffers
                assert 0.85 * ram < cached < 1.05 * ram


@needs_memory_group
def test_the_keeper_keeps_what_is_available(tmp_path):
    with Holding("cgroup", SOME_FOLDER, Ledger(tmp_path)) as holding:
        holding.apply(Tier(ram=256 * MB))
        with inside(holding.groups, TAKE, "private", 48) as backend:
            line_of(backend)
            until(lambda: abs(holding.memory.available() / (256 * MB) - 1) < 0.035)
        assert holding.trouble is None


@needs_huge_pages
def test_the_keeper_gives_pages_to_whoever_takes_memory():
    with Holding("hugepages", SOME_FOLDER) as holding:
        target = meminfo()["MemAvailable"] - GB
        holding.apply(Tier(ram=target))
        hold = holding._held.hold
        before = hold.pages
        with program(TAKE, "", "private", 600) as process:
            line_of(process)
            until(lambda: hold.pages < before - 100)
            until(lambda: abs(holding.memory.available() / target - 1) < 0.03)


class Heap:
    """Ballast that locks nothing; a test double."""

    most = 1000 * MB

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def resize(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("left", "available", "held", "pages", "ballast"),
    [
        (5000, 4000, 100, 1000, 100),  # as requested
        (5000, 4020, 100, 1000, 100),  # nearly
        (5000, 4100, 0, 1000, 100),  # in ordinary memory first
        (5000, 4100, 1000, 1050, 1000),  # of which there may be so much
        (5000, 5000, 800, 1100, 1000),  # memory is taken in steps
        (5000, 3900, 300, 1000, 200),
        (5000, 3000, 300, 650, 0),  # and given at once
        (28, 4000, 0, 950, 0),  # so that nothing is ended for want of memory
        (5000, 0, 0, 0, 0),
    ],
)
def test_what_is_locked_follows_what_is_available(
    left, available, held, pages, ballast, tmp_path, monkeypatch
):
    monkeypatch.setattr(locked_memory, "meminfo", lambda: {"MemAvailable": left * MB})
    monkeypatch.setattr(locked_memory, "page_size", lambda: 2 * MB)
    monkeypatch.setattr(LockedMemory, "pages_in_use", lambda locked: 0)
    monkeypatch.setattr(WholeMachine, "available", lambda self: available * MB)
    changed = [1000]
    monkeypatch.setattr(Ledger, "change_pages", lambda ledger, hold, number: changed.append(number))
    ledger, hold = Ledger(tmp_path), own_hold("hugepages")
    hold.pages = 1000
    with ledger.lock():
        ledger.write(hold)
    heap = Heap(held * MB)
    LockedMemory(ledger, hold, heap).keep(WholeMachine(0), 4000 * MB)
    assert (changed[-1], heap.size) == (pages, ballast * MB)


def test_a_limit_is_lowered_in_steps_and_never_below_what_cannot_be_given_up(tmp_path):
    group = group_of_version_2(tmp_path)  # a double: the kernel would end processes if it were
    keep_limit(group, 512 * MB)
    assert group.limit() == GB - 64 * MB
    for _ in range(20):
        keep_limit(group, 512 * MB)
    assert group.limit() == 612 * MB
    for _ in range(20):
        keep_limit(group, 64 * MB)
    assert group.limit() == (100 + 256 + 16) * MB
    keep_limit(group, 2 * GB)
    assert group.limit() == 2 * GB + 100 * MB  # what is missing is given at once


def test_small_deviations_are_left_alone(tmp_path):
    group = group_of_version_1(tmp_path)
    keep_limit(group, GB - 100 * MB - 8 * MB)
    assert group.limit() == GB


def test_the_keeper_outlives_an_error_and_tells_it(monkeypatch):
    monkeypatch.setattr(groups, "KEEPER_SECONDS", 0.01)
    calls = []

    def correct():
        calls.append(1)
        if len(calls) == 1:
            raise OSError("cannot be read")

    keeper = Keeper(correct)
    until(lambda: len(calls) > 3)
    keeper.stop()
    assert keeper.error == "OSError: cannot be read"
    number = len(calls)
    time.sleep(0.05)
    assert len(calls) == number
