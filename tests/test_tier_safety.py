"""Whatever ends a process, what it held is given back, and nothing else."""

import os
import random
import signal
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from ann_benchmarks.common.errors import UserError
from tiers import control_groups, huge_pages, releasing, status
from tiers.holding import Holding
from tiers.keeper import keep_pages
from tiers.memory import ControlGroup, WholeMachine
from tiers.records import GroupRecord, Record, Records, own_record, start_of
from tiers.tier import MIB, Tier

from .test_tier_memory import Heap
from .tier_holds import guards_of, line_of, needs_huge_pages, needs_memory_group, own_group, program, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")

HOLD = """
    import sys, time
    from pathlib import Path
    from tiers.holding import Holding
    from tiers.meminfo import meminfo
    from tiers.records import Records
    from tiers.tier import Tier
    print("begun", flush=True)
    records = Records(Path(sys.argv[2])) if len(sys.argv) > 2 else None
    with Holding(sys.argv[1], None, records) as holding:
        for number in range(1000):
            left = 400 << 20 if sys.argv[1] == "cgroup" else meminfo()["MemAvailable"] - (1 << 30)
            holding.apply(Tier(ram=left))
            print("held", flush=True)
            time.sleep(0.05 if number < 3 else 60)
"""


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "records")


def group_of(pid: int) -> Path:
    return own_group() / f"ann-benchmarks-tier-{pid}"


def record_of(**differences) -> Record:
    return Record(**{**vars(own_record("cgroup")), **differences})


@needs_huge_pages
def test_pages_are_given_back_after_a_kill_at_any_moment():
    before = huge_pages.total_pages()
    chance = random.Random(7)
    for _ in range(5):
        with program(HOLD, "hugepages") as holder:
            line_of(holder)
            time.sleep(chance.uniform(0, 0.9))
            holder.kill()
            holder.wait()
            until(lambda pid=holder.pid: not guards_of(pid))
            until(lambda: huge_pages.total_pages() == before, 1)
            assert holder.pid not in [record.pid for record in Records().all()]


@needs_memory_group
def test_groups_are_given_back_after_a_kill_at_any_moment(records):
    chance = random.Random(8)
    for _ in range(4):
        with program(HOLD, "cgroup", records.folder) as holder:
            line_of(holder)
            time.sleep(chance.uniform(0.1, 0.5))
            holder.kill()
            holder.wait()
            until(lambda pid=holder.pid: not guards_of(pid))
            assert not group_of(holder.pid).exists() and records.all() == []


def kill_with_guards(holder) -> None:
    line_of(holder), line_of(holder)
    until(lambda: guards_of(holder.pid))  # one that was started just now has not its name yet
    for guard in guards_of(holder.pid):
        os.kill(guard, signal.SIGKILL)
    holder.kill()
    holder.wait()
    until(lambda: not guards_of(holder.pid))


@needs_memory_group
def test_the_next_start_gives_back_what_no_guard_did(records):
    with program(HOLD, "cgroup", records.folder) as holder:
        kill_with_guards(holder)
        assert group_of(holder.pid).exists()
        with Holding("cgroup", None, records):
            assert not group_of(holder.pid).exists()
            assert [record.pid for record in records.all()] == [os.getpid()]


@needs_huge_pages
def test_release_gives_back_pages_that_no_guard_did():
    before = huge_pages.total_pages()
    with program(HOLD, "hugepages") as holder:
        kill_with_guards(holder)
        assert huge_pages.total_pages() > before
        assert any("which has ended" in line and "huge pages" in line for line in status.status())
        assert any(line.startswith(f"released: process {holder.pid} ") for line in status.release(False))
    assert huge_pages.total_pages() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@needs_memory_group
def test_an_interrupted_process_gives_back(records, number):
    terminate = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
    with program(terminate + dedent(HOLD), "cgroup", records.folder) as holder:
        line_of(holder), line_of(holder)
        holder.send_signal(number)
        holder.wait(10)
        assert not group_of(holder.pid).exists() and records.all() == []
        assert guards_of(holder.pid) == []


@needs_memory_group
def test_an_error_gives_back(records):
    with pytest.raises(ZeroDivisionError), Holding("cgroup", None, records) as holding:
        holding.apply(Tier(ram=256 * MIB))
        assert group_of(os.getpid()).exists()
        _ = 1 / 0
    assert not group_of(os.getpid()).exists() and records.all() == [] and guards_of(os.getpid()) == []
    with pytest.raises(UserError, match="with block"):
        holding.apply(Tier())


@needs_memory_group
def test_release_leaves_the_living_alone_unless_all_is_asked(records, monkeypatch):
    monkeypatch.setattr(status, "Records", lambda folder=None: records)
    with Holding("cgroup", None, records) as holding:
        holding.apply(Tier(ram=256 * MIB))
        (line,) = status.release(False)
        assert line.startswith(f"kept: process {os.getpid()} (")
        assert (
            line.endswith(f"running for {line.split('running for ')[1]}")
            and str(group_of(os.getpid())) in line
        )
        assert isinstance(holding.memory, ControlGroup) and holding.memory.folder.exists()
        (line,) = status.release(True)
        assert line.startswith("released: process ") and not group_of(os.getpid()).exists()
        assert status.status() == ["nothing is held"]
        with pytest.raises(UserError, match="released by another process: start again"):
            holding.apply(Tier(ram=256 * MIB))
    assert records.all() == []


def test_a_keeper_takes_nothing_again_that_was_released(records):
    record, heap = own_record("hugepages"), Heap(8 * MIB)
    with pytest.raises(UserError, match="released by another process"):
        keep_pages(records, record, heap, WholeMachine(0), 1)
    assert heap.size == 0


def test_a_pid_given_to_another_process_is_not_the_owner():
    record = own_record("cgroup")
    assert record.is_alive
    assert not record_of(start=record.start - 1).is_alive
    assert not record_of(boot="another").is_alive
    assert start_of(2**22 + 1) is None


def test_a_process_that_has_ended_and_was_not_waited_for_is_dead():
    with program("print('x', flush=True)") as process:
        line_of(process)
        until(lambda: start_of(process.pid) is None)


def test_what_was_held_before_a_restart_is_only_forgotten(records, monkeypatch):
    monkeypatch.setattr(releasing, "empty", lambda *_: pytest.fail("this machine has none of it"))
    with records.lock():
        records.write(record_of(boot="another", pages=1000))
    releasing.release_dead(records)
    assert records.all() == []


@needs_huge_pages
@pytest.mark.parametrize("arrived", [0, 5, 20])
def test_a_change_cut_off_half_way_gives_back_what_had_arrived(records, arrived):
    number = Path("/proc/sys/vm/nr_hugepages")
    before = huge_pages.total_pages()
    with records.lock():
        records.write(record_of(start=1, pages=0, reaching=20, others=before))
    number.write_text(str(before + arrived))
    try:
        releasing.release_dead(records)
        assert huge_pages.total_pages() == before
    finally:
        number.write_text(str(before))


def test_giving_back_that_was_cut_off_is_not_done_twice(monkeypatch):
    record = record_of(pages=20, reaching=0, others=30)
    monkeypatch.setattr(huge_pages, "total_pages", lambda: 30)  # the number was written, the record was not
    huge_pages.settle(record)
    assert record.pages == 0


def test_what_cannot_be_given_back_is_told_and_kept_in_mind(records, tmp_path, monkeypatch):
    (tmp_path / "group").mkdir()
    (tmp_path / "group/file").touch()  # not a group: cannot be removed as one
    record = record_of(start=1, groups=[GroupRecord(str(tmp_path / "group"), str(tmp_path))])
    with records.lock():
        records.write(record)
    monkeypatch.setattr(control_groups, "_LAST_SECONDS", 0)
    with pytest.raises(UserError, match="could not give back .*group: Directory not empty"):
        releasing.release_dead(records)
    assert len(records.all()) == 1


def test_a_record_that_cannot_be_read_is_told(records):
    with records.lock():
        (records.folder / "1-1.json").write_text("{")
    with pytest.raises(UserError, match="1-1.json cannot be understood"):
        records.all()


def test_a_folder_of_somebody_else_is_not_used(records, monkeypatch):
    records.folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UserError, match="belongs to somebody else"), records.lock():
        pass
