"""Memory, CPUs and disk of a tier: set, verified by use, and given back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB
from tiers import groups, limits, machine
from tiers import holding as holdings
from tiers import ledger as ledgers
from tiers.groups import ControlGroup, find_place, remove_group
from tiers.holding import Holding
from tiers.ledger import Ledger, own_hold
from tiers.limits import Group, choose_groups
from tiers.machine import WholeMachine, block_device, meminfo, system_reserve
from tiers.tier import Disk, SimulatedServer, Tier

from .programs import temporary_folder
from .tier_holds import (
    SOME_FOLDER,
    group_of,
    inside,
    line_of,
    needs_groups,
    needs_huge_pages,
    needs_memory_group,
    own_group,
    program,
)

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")]

READ = """
    with open(sys.argv[2], "rb", buffering=0) as file:
        while file.read(1 << 20): pass
    print("read", flush=True)
    sys.stdin.read()
"""
READ_DIRECTLY = """
    import mmap, time
    handle = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECT)
    page, number, end = mmap.mmap(-1, 8192), 0, time.monotonic() + 1.5
    while time.monotonic() < end:
        number += os.preadv(handle, [page], number % 4000 * 8192) // 8192
    print(number, flush=True)
"""
SHARE = """
    import mmap
    shared = mmap.mmap(-1, 100 << 20)
    for page in range(0, len(shared), 4096): shared[page] = 1
    print("shared", flush=True)
    input()
"""
AFFINITY = "print(sorted(os.sched_getaffinity(0)), flush=True)"


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


@pytest.fixture(scope="module")
def big_file():
    """300 MB on a disk."""
    with temporary_folder(on_disk=True) as folder:
        file = folder / "file"
        with file.open("wb") as opened:
            for _ in range(300):
                opened.write(os.urandom(1 << 10) * 1000)
        os.sync()
        yield file


# Huge pages


@needs_huge_pages
def test_huge_pages_leave_the_target_and_those_of_others_alone():
    others = ledgers.total_pages() + 10
    Path("/proc/sys/vm/nr_hugepages").write_text(str(others))
    try:
        with Holding("hugepages", SOME_FOLDER) as holding:
            target = meminfo()["MemAvailable"] - GB
            holding.apply(Tier(ram=target))
            assert isinstance(holding.memory, WholeMachine) and holding.groups == []
            assert abs(holding.memory.available() / target - 1) < 0.03
            assert ledgers.total_pages() - others > 300
            holding.apply(Tier())
            assert ledgers.total_pages() == others
            holding.apply(Tier(ram=target))
            assert ledgers.total_pages() > others
        assert ledgers.total_pages() == others
    finally:
        Path("/proc/sys/vm/nr_hugepages").write_text(str(ledgers.total_pages() - 10))


@needs_huge_pages
def test_huge_pages_that_a_process_uses_are_noticed():
    use = """
        import mmap
        taken = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)  # MAP_HUGETLB
        taken[0] = 1
        print("taken", flush=True)
        input()
        """
    with Holding("hugepages", SOME_FOLDER) as holding:
        locked = holding._held
        locked.reserve(8)
        before = locked.pages_in_use()
        with program(use) as process:
            line_of(process)
            assert locked.pages_in_use() >= max(before, 4)


@pytest.mark.parametrize("is_small", [True, False])
@needs_huge_pages
def test_a_tier_that_huge_pages_cannot_leave_is_refused(is_small):
    before = ledgers.total_pages()
    tier = Tier(ram=system_reserve() - MB if is_small else meminfo()["MemTotal"] * 2)
    with (
        Holding("hugepages", SOME_FOLDER) as holding,
        pytest.raises(UserError, match=r"use --tier-method cgroup|request less"),
    ):
        holding.apply(tier)
    assert ledgers.total_pages() == before


def test_huge_pages_need_rights(ledger, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="no right to write .*; |no huge pages"):
        Holding("hugepages", SOME_FOLDER, ledger).__enter__()


def test_one_process_at_a_time_holds_huge_pages(ledger, monkeypatch):
    monkeypatch.setattr(holdings, "require_rights", lambda: None)
    claim = """
        import sys; from pathlib import Path
        from tiers.ledger import Ledger, own_hold
        ledger = Ledger(Path(sys.argv[1]))
        with ledger.lock(): ledger.write(own_hold("hugepages"))
        print("held", flush=True); sys.stdin.read()
        """
    with program(claim, ledger.folder) as other:
        line_of(other)
        with pytest.raises(UserError, match=rf"held by process {other.pid} \(.*python.*\): wait"):
            Holding("hugepages", SOME_FOLDER, ledger).__enter__()


def test_one_process_holds_one_tier(ledger):
    with ledger.lock():
        ledger.write(own_hold("cgroup"))
    with pytest.raises(UserError, match="holds a tier already"):
        Holding("hugepages" if os.geteuid() == 0 else "cgroup", SOME_FOLDER, ledger).__enter__()


# Control groups


@needs_memory_group
def test_a_group_caches_no_more_than_its_limit(ledger, big_file):
    with Holding("cgroup", [big_file.parent], ledger) as holding:
        holding.apply(Tier(ram=128 * MB))
        assert holding.facts["tier_available_at_start"] == pytest.approx(128 * MB, rel=0.03)
        group = holding.memory
        assert isinstance(group, ControlGroup)
        with inside(holding.groups, READ, big_file) as reader:
            line_of(reader)
            cached = group.numbers("memory.stat")["total_cache" if group.version == 1 else "file"]
            assert 90 * MB < cached < 132 * MB
        folder = group.folder
        assert folder.exists()
    assert not folder.exists() and ledger.all() == []


@needs_groups
def test_cpus_and_disk_are_limited(ledger, big_file):
    with Holding("cgroup", [big_file.parent], ledger) as holding:
        holding.apply(Tier(cpus=1, disk=Disk("slow", iops=200)))
        assert isinstance(holding.memory, WholeMachine)
        # Version 1 has one for each controller.
        assert {file.parent.name for file in holding.groups} == {f"ann-benchmarks-tier-{os.getpid()}"}
        with inside(holding.groups, AFFINITY) as process:
            assert line_of(process) == str(sorted(os.sched_getaffinity(0))[:1])
        with inside(holding.groups, READ_DIRECTLY, big_file) as process:
            limited = int(line_of(process))
        assert 150 < limited < 390, "reads in 1.5 s"
        holding.apply(Tier(disk=Disk("fast")))
        assert holding.groups == []
        with inside([own_group() / "cgroup.procs"], READ_DIRECTLY, big_file) as process:
            assert int(line_of(process)) > 2 * limited


@needs_groups
def test_more_cpus_than_there_are_are_refused_and_nothing_stays(ledger):
    with Holding("cgroup", SOME_FOLDER, ledger) as holding:
        with pytest.raises(UserError, match="10000 CPUs"):
            holding.apply(Tier(ram=128 * MB, cpus=10_000))
        assert not group_of(os.getpid()).exists() and not group_of(os.getpid(), "cpuset").exists()
        assert holding.groups == [] and holding.memory is None


@needs_memory_group
def test_a_tier_that_is_not_as_large_as_requested_is_an_error(ledger, monkeypatch):
    monkeypatch.setattr(ControlGroup, "available", lambda self: 120 * MB)
    with Holding("cgroup", SOME_FOLDER, ledger) as holding:
        with pytest.raises(UserError, match="128 MB were to be available, but 120 MB are"):
            holding.apply(Tier(ram=128 * MB))
        assert holding.memory is None and not group_of(os.getpid()).exists()


@needs_memory_group
def test_more_than_a_group_above_leaves_is_refused(ledger, monkeypatch):
    monkeypatch.setattr(Group, "memory_limit_above", lambda group: 64 * MB)
    with (
        Holding("cgroup", SOME_FOLDER, ledger) as holding,
        pytest.raises(UserError, match="64 MB that the groups above"),
    ):
        holding.apply(Tier(ram=128 * MB))


@needs_memory_group
def test_a_process_that_does_not_end_is_moved_out_of_its_group():
    place = find_place("memory")
    assert place is not None
    (group,) = choose_groups(["memory"], "ann-benchmarks-test-group")
    group.make()
    with inside([group.folder / "cgroup.procs"], "print('in', flush=True); sys.stdin.read()") as process:
        line_of(process)
        remove_group(group.folder, group.home, patience=0.3)
        assert not group.folder.exists() and process.poll() is None
        assert str(process.pid) in (group.home / "cgroup.procs").read_text().split()


@needs_memory_group
def test_a_container_with_a_limit_has_what_that_leaves(ledger, monkeypatch):
    monkeypatch.setattr(ControlGroup, "limit", lambda self: 300 * MB)
    with Holding("cgroup", SOME_FOLDER, ledger) as holding:
        holding.apply(Tier())
        assert isinstance(holding.memory, ControlGroup) and holding.memory.folder == own_group()
        assert holding.facts["tier_available_at_start"] < 300 * MB


# Control groups of version 2, as a double: folders with files that the kernel would make


@pytest.fixture
def version_2_double(tmp_path, monkeypatch):
    """/proc and a tree of groups in a folder; our own group has processes, so that it can have no groups."""
    top, processes = tmp_path / "groups", tmp_path / "proc"
    own = top / "user.slice" / "session"
    own.mkdir(parents=True)
    for folder in (top, top / "user.slice", own):
        (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        (folder / "cgroup.subtree_control").write_text("")
        (folder / "cgroup.procs").write_text("7\n")
    (own / "cgroup.type").write_text("domain\n")  # all but the top have one
    (top / "user.slice/cgroup.type").write_text("domain\n")
    (top / "user.slice/cgroup.procs").write_text("")
    (processes / "self").mkdir(parents=True)
    (processes / "self/cgroup").write_text("0::/user.slice/session\n")
    (processes / "self/mountinfo").write_text(
        f"31 23 0:28 / {top} rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
    )

    make_folder, remove_folder = Path.mkdir, Path.rmdir

    def make(folder):
        make_folder(folder)
        for name in ("memory.max", "memory.swap.max", "cpuset.cpus", "io.max", "cgroup.procs"):
            (folder / name).write_text("")
        (folder / "cpuset.cpus.effective").write_text(f"{min(os.sched_getaffinity(0))}\n")

    def remove(folder):
        for file in folder.iterdir():
            file.unlink()
        remove_folder(folder)

    monkeypatch.setattr(Path, "mkdir", make)
    monkeypatch.setattr(Path, "rmdir", remove)
    return processes


def test_version_2_has_one_group_for_all_below_the_nearest_that_may_have_one(version_2_double):
    (group,) = choose_groups(["memory", "cpuset", "io"], "tier", version_2_double)
    assert group.version == 2 and group.folder.parent.name == "user.slice" and group.home.name == "session"
    assert (group.folder.parent / "cgroup.subtree_control").read_text() == "+memory +cpuset +io"
    group.make()
    group.limit_memory(GB)
    group.limit_cpus(1)
    group.limit_disk("254:0", Disk("gp3", iops=3000, bandwidth=125_000_000).limits)
    held = {name: (group.folder / name).read_text() for name in ("memory.max", "memory.swap.max", "io.max")}
    assert held == {
        "memory.max": str(GB),
        "memory.swap.max": "0",
        "io.max": "254:0 rbps=125000000 wbps=125000000 riops=3000 wiops=3000",
    }
    remove_group(group.folder, group.home, patience=0)
    assert not group.folder.exists()


@pytest.mark.parametrize("controllers", [["cpuset"], ["memory"], ["cpuset", "io"]])
def test_version_2_has_no_group_below_one_with_processes(version_2_double, controllers):
    """Below it, the kernel lets the controller of CPUs be switched on, but no process enter."""
    (group,) = choose_groups(controllers, "tier", version_2_double)
    assert group.folder.parent.name == "user.slice"
    (group.folder.parent / "cgroup.procs").write_text("7\n")
    (group,) = choose_groups(controllers, "tier", version_2_double)
    assert group.folder.parent.name == "groups"  # the top may have both


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("cgroup.controllers", "no control groups for the disk .*leave that limit out"),
        ("cgroup.subtree_control", "cannot limit the disk by .*no right to write there; "),
    ],
)
def test_version_2_without_a_controller_or_the_right_to_it_is_refused(version_2_double, missing, message):
    for file in version_2_double.parent.rglob(missing):
        file.write_text("cpu pids\n") if "controllers" in missing else file.unlink()
    with pytest.raises(UserError, match=message):
        choose_groups(["io"], "tier", version_2_double)


def test_limits_that_the_kernel_does_not_keep_are_an_error(version_2_double, monkeypatch):
    (group,) = choose_groups(["cpuset", "io"], "tier", version_2_double)
    group.make()
    monkeypatch.setattr(groups, "write", lambda file, text: None)
    with pytest.raises(UserError, match="does not hold what was set: 254:0 "):
        group.limit_disk("254:0", Disk("slow", iops=200).limits)
    (group.folder / "cpuset.cpus.effective").write_text("5000-5001\n")
    with pytest.raises(UserError, match=r"has CPUs \[5000, 5001\]"):
        group.limit_cpus(1)


def test_limits_that_are_taken_away_later_are_noticed(version_2_double):
    (group,) = choose_groups(["cpuset", "io"], "tier", processes=version_2_double)
    group.make()
    assert group.fixed_limits() == {}
    group.limit_cpus(1)
    group.limit_disk("8:0", Disk("own", iops=10).limits)
    server = SimulatedServer(Tier(cpus=1, disk=Disk("own", iops=10)), "cgroup", limits=group.fixed_limits())
    server.check({})
    (group.folder / "io.max").unlink()  # as the kernel does when the controller is switched off above
    with pytest.raises(UserError, match=r"io\.max was removed, .*systemd-run --scope -p Delegate=yes"):
        server.check({})


@pytest.mark.parametrize(
    "user, own, chosen",
    [
        (0, "/user.slice/user-0.slice/session-5.scope", ["--system", "user-0.slice"]),
        (0, "/", ["--system", "-.slice"]),
        (9, "/user.slice/user-9.slice/user@9.service/app.slice/own.scope", ["--user", "app.slice"]),
        (9, "/user.slice/user-9.slice/session-5.scope", []),
    ],
)
def test_systemd_is_requested_to_keep_controllers(version_2_double, monkeypatch, tmp_path, user, own, chosen):
    (version_2_double / "self/cgroup").write_text(f"0::{own}\n")
    calls = []
    monkeypatch.setattr(subprocess, "run", lambda command, **options: calls.append(command))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(limits, "_SYSTEMD", tmp_path / "not there")
    limits.keep_controllers(7, version_2_double)
    assert not calls
    monkeypatch.setattr(limits, "_SYSTEMD", tmp_path)
    limits.keep_controllers(7, version_2_double)
    assert [[word for word in call if word in chosen] for call in calls] == ([chosen] if chosen else [])
    assert all("ann-benchmarks-tiers-7.scope" in call for call in calls)


def test_the_mounted_part_of_a_tree_is_where_a_container_sees_it(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("4:memory:/docker/abc/deeper\n3:cpu,cpuset:/elsewhere\n")
    (tmp_path / "self/mountinfo").write_text(
        "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "36 31 0:33 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpu,cpuset\n"
    )
    memory, cpus = find_place("memory", processes=tmp_path), find_place("cpuset", processes=tmp_path)
    assert memory is not None and memory.folder == Path("/sys/fs/cgroup/memory/deeper")
    assert cpus is not None and cpus.folder == Path("/sys/fs/cgroup/cpuset")
    assert find_place("io", processes=tmp_path) is None


def test_a_group_that_may_not_be_made_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot limit the memory by a control group at .*; "):
        Group(tmp_path / "none" / "tier", 1, tmp_path, ("memory",)).make()


# The disk


def test_the_disk_of_a_folder_need_not_exist_yet():
    assert block_device(Path("/var/tmp/none/such")) == block_device(Path("/var/tmp"))


def test_a_folder_in_memory_is_refused():
    with pytest.raises(UserError, match=r"not on a disk that can be limited \(tmpfs\).*own file system"):
        block_device(Path("/dev/shm"))


def test_a_partition_stands_for_its_disk(tmp_path, monkeypatch):
    on_disk = Path("/var/tmp")
    number = on_disk.stat().st_dev
    partition = tmp_path / "devices/sda/sda1"
    partition.mkdir(parents=True)
    (partition / "partition").write_text("1\n")
    (tmp_path / "devices/sda/dev").write_text("8:0\n")
    (tmp_path / f"{os.major(number)}:{os.minor(number)}").symlink_to(partition)
    monkeypatch.setattr(machine, "_DEVICES", tmp_path)
    assert block_device(on_disk) == "8:0"


def test_a_file_system_that_hides_its_disk_is_looked_up(tmp_path, monkeypatch):
    disk = next((path for path in Path("/dev").iterdir() if path.is_block_device()), None)
    if disk is None:
        pytest.skip("no disk is in /dev here")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:40 / / rw - overlay overlay rw\n23 22 0:41 / /dev/shm rw shared:1 - btrfs {disk} rw\n"
    )
    monkeypatch.setattr(machine, "_MOUNTS", mounts)
    number = disk.stat().st_rdev
    assert block_device(Path("/dev/shm")) == f"{os.major(number)}:{os.minor(number)}"
