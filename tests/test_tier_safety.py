"""Whatever ends a process, what it held is given back, and nothing else."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import MB
from tiers import __main__ as release
from tiers import groups, holding, options, sweep
from tiers import ledger as ledgers
from tiers import machine as machines
from tiers.groups import CPUS, ControlGroup
from tiers.holding import Holding
from tiers.ledger import HeldGroup, Hold, Ledger, own_hold, process_start
from tiers.limits import advice_for
from tiers.locked_memory import LockedMemory
from tiers.machine import WholeMachine, ways_out
from tiers.options import choose_method
from tiers.tier import Tier

from .programs import PATIENCE, until
from .test_tier_memory import Heap
from .tier_holds import (
    SOME_FOLDER,
    group_of,
    guards_of,
    line_of,
    needs_huge_pages,
    needs_memory_group,
    program,
)

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(sys.platform != "linux", reason="tiers need Linux")]

HOLD = """
    import sys, time
    from pathlib import Path
    from tiers.holding import Holding
    from tiers.ledger import Ledger
    from tiers.machine import meminfo
    from tiers.tier import Tier
    print("begun", flush=True)
    ledger = Ledger(Path(sys.argv[2])) if len(sys.argv) > 2 else None
    left = 400 << 20 if sys.argv[1] == "cgroup" else meminfo()["MemAvailable"] - (1 << 30)
    with Holding(sys.argv[1], [Path("tiers")], ledger) as holding:
        for number in range(1000):
            holding.apply(Tier(ram=left))
            print("held", flush=True)
            time.sleep(0.05 if number < 3 else 60)
"""


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


def hold_of(**differences) -> Hold:
    return Hold(**{**vars(own_hold("cgroup")), **differences})


@needs_huge_pages
def test_pages_are_given_back_after_a_kill_at_any_moment():
    before = ledgers.total_pages()
    chance = random.Random(7)
    for _ in range(5):
        with program(HOLD, "hugepages") as holder:
            line_of(holder)
            time.sleep(chance.uniform(0, 0.9))
            holder.kill()
            holder.wait()
            until(lambda pid=holder.pid: not guards_of(pid))
            until(lambda: ledgers.total_pages() == before)
            assert holder.pid not in [hold.pid for hold in Ledger().all()]


@needs_memory_group
def test_groups_are_given_back_after_a_kill_at_any_moment(ledger):
    chance = random.Random(8)
    for _ in range(4):
        with program(HOLD, "cgroup", ledger.folder) as holder:
            line_of(holder)
            time.sleep(chance.uniform(0.1, 0.5))
            holder.kill()
            holder.wait()
            until(lambda pid=holder.pid: not guards_of(pid))
            assert not group_of(holder.pid).exists() and ledger.all() == []


def kill_with_guards(holder) -> None:
    for _ in range(5):  # after which it holds the same for long
        line_of(holder)
    until(lambda: guards_of(holder.pid))  # one that was started just now has not its name yet
    for guard in guards_of(holder.pid):
        os.kill(guard, signal.SIGKILL)
    holder.kill()
    holder.wait()
    until(lambda: not guards_of(holder.pid))


@needs_memory_group
def test_the_next_start_gives_back_what_no_guard_did(ledger):
    with program(HOLD, "cgroup", ledger.folder) as holder:
        kill_with_guards(holder)
        assert group_of(holder.pid).exists()
        with Holding("cgroup", SOME_FOLDER, ledger):
            assert not group_of(holder.pid).exists()
            assert [hold.pid for hold in ledger.all()] == [os.getpid()]


@needs_huge_pages
def test_release_gives_back_pages_that_no_guard_did():
    before = ledgers.total_pages()
    with program(HOLD, "hugepages") as holder:
        kill_with_guards(holder)
        assert ledgers.total_pages() > before
        assert any("has ended" in line and "huge pages" in line for line in release.status())
        assert any(line.startswith(f"released: process {holder.pid} ") for line in release.release(False))
    assert ledgers.total_pages() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@needs_memory_group
def test_an_interrupted_process_gives_back(ledger, number):
    terminate = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
    with program(terminate + dedent(HOLD), "cgroup", ledger.folder) as holder:
        line_of(holder), line_of(holder)
        holder.send_signal(number)
        holder.wait(10 * PATIENCE)
        assert not group_of(holder.pid).exists() and ledger.all() == []
        assert guards_of(holder.pid) == []


@needs_memory_group
def test_an_error_gives_back(ledger):
    with pytest.raises(ZeroDivisionError), Holding("cgroup", SOME_FOLDER, ledger) as holding:
        holding.apply(Tier(ram=256 * MB))
        assert group_of(os.getpid()).exists()
        _ = 1 / 0
    assert not group_of(os.getpid()).exists() and ledger.all() == [] and guards_of(os.getpid()) == []
    with pytest.raises(UserError, match="with block"):
        holding.apply(Tier())


@needs_memory_group
def test_release_leaves_the_living_alone_unless_all_is_requested(ledger, monkeypatch):
    monkeypatch.setattr(release, "Ledger", lambda folder=None: ledger)
    with Holding("cgroup", SOME_FOLDER, ledger) as holding:
        holding.apply(Tier(ram=256 * MB))
        (line,) = release.release(False)
        assert line.startswith(f"kept: process {os.getpid()} (")
        assert (
            line.endswith(f"running for {line.split('running for ')[1]}")
            and str(group_of(os.getpid())) in line
        )
        assert isinstance(holding.memory, ControlGroup) and holding.memory.folder.exists()
        (line,) = release.release(True)
        assert line.startswith("released: process ") and not group_of(os.getpid()).exists()
        assert release.status() == ["nothing is held"]
        with pytest.raises(UserError, match="released by another process: start again"):
            holding.apply(Tier(ram=256 * MB))
    assert ledger.all() == []


def test_a_keeper_takes_nothing_again_that_was_released(ledger):
    hold, heap = own_hold("hugepages"), Heap(8 * MB)
    with pytest.raises(UserError, match="released by another process"):
        LockedMemory(ledger, hold, heap).keep(WholeMachine(0), 1)
    assert heap.size == 0


def test_a_pid_given_to_another_process_is_not_the_owner():
    hold = own_hold("cgroup")
    assert hold.is_alive
    assert not hold_of(start=hold.start - 1).is_alive
    assert not hold_of(boot="another").is_alive
    assert process_start(2**22 + 1) is None


def test_a_process_that_has_ended_and_was_not_waited_for_is_dead():
    with program("print('x', flush=True)") as process:
        line_of(process)
        until(lambda: process_start(process.pid) is None)


def test_what_was_held_before_a_restart_is_only_forgotten(ledger, monkeypatch):
    monkeypatch.setattr(Ledger, "empty", lambda *_: pytest.fail("this machine has none of it"))
    with ledger.lock():
        ledger.write(hold_of(boot="another", pages=1000))
    ledger.release_dead()
    assert ledger.all() == []


@needs_huge_pages
@pytest.mark.parametrize("arrived", [0, 5, 20])
def test_a_change_cut_off_half_way_gives_back_what_had_arrived(ledger, arrived):
    number = Path("/proc/sys/vm/nr_hugepages")
    before = ledgers.total_pages()
    with ledger.lock():
        ledger.write(hold_of(start=1, pages=0, reaching=20, others=before))
    number.write_text(str(before + arrived))
    try:
        ledger.release_dead()
        assert ledgers.total_pages() == before
    finally:
        number.write_text(str(before))


def test_giving_back_that_was_cut_off_is_not_done_twice(monkeypatch):
    hold = hold_of(pages=20, reaching=0, others=30)
    monkeypatch.setattr(ledgers, "total_pages", lambda: 30)  # the number was written, the hold was not
    hold.resolve_change()
    assert hold.pages == 0


def test_what_cannot_be_given_back_is_told_and_kept_in_mind(ledger, tmp_path, monkeypatch):
    (tmp_path / "group").mkdir()
    (tmp_path / "group/file").touch()  # not a group: cannot be removed as one
    hold = hold_of(start=1, groups=[HeldGroup(str(tmp_path / "group"), str(tmp_path))])
    with ledger.lock():
        ledger.write(hold)
    monkeypatch.setattr(groups, "_LAST_SECONDS", 0)
    with pytest.raises(UserError, match="could not give back .*group: Directory not empty"):
        ledger.release_dead()
    assert len(ledger.all()) == 1


def test_records_are_kept_as_written(ledger):
    hold = hold_of(boot="another", pages=7, groups=[HeldGroup("/a", "/b")])
    with ledger.lock():
        ledger.write(hold)
        assert ledger.has(hold) and ledger.all() == [hold]
        ledger.give_back(hold)
    assert not ledger.has(hold) and ledger.all() == []


def test_a_record_that_cannot_be_read_is_told(ledger):
    with ledger.lock():
        (ledger.folder / "1-1.json").write_text("{")
    with pytest.raises(UserError, match="1-1.json cannot be understood"):
        ledger.all()


def test_a_folder_of_somebody_else_is_not_used(ledger, monkeypatch):
    ledger.folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(UserError, match="belongs to another user"), ledger.lock():
        pass


# What a user is sent to who may not hold memory back: to what is there, and never in a circle.


SCOPE = "run it by `systemd-run --user --scope -p Delegate=yes python ...`"
NOBODY = 65534
AS_NOBODY = """
import os, sys
from tiers.options import choose_method
from ann_benchmarks.common.errors import UserError
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(choose_method(sys.argv[1]))
except UserError as error:
    print("refused:", error)
"""


def test_an_ordinary_user_is_sent_to_what_there_is(monkeypatch: pytest.MonkeyPatch):
    found = "leave --local out, to measure in containers, or run it as root"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(machines.shutil, "which", lambda name: None)
    assert ways_out() == found
    monkeypatch.setattr(machines.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert ways_out() == f"log in as this user, not by su or sudo, and {SCOPE}, or {found}"
    monkeypatch.setattr(os, "geteuid", lambda: 0)  # root lacks rights in containers only
    assert ways_out().startswith("start the container with --privileged, or")


def test_a_controller_that_systemd_does_not_hand_down():
    group = Path("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope")
    assert "have an administrator add cpuset to the line Delegate=" in advice_for("cpuset", group)


@pytest.mark.parametrize("method", ["auto", "cgroup", "hugepages"])
def test_an_ordinary_user_is_refused_before_anything_is_built(method: str, tmp_path: Path):
    """Unless the account has a group of its own; and it is sent to no method that takes rights, too.

    It has become this user by `su`, so that XDG_RUNTIME_DIR is a folder that it may not enter.
    """
    (tmp_path / "closed").mkdir(mode=0)
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, method],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60 * PATIENCE,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "closed")},
    )  # fmt: skip
    assert done.stderr == ""
    said = done.stdout.strip()
    assert said == "cgroup" or said.startswith("refused: ")
    assert "tier-method" not in said
    if method == "auto" and said != "cgroup":
        assert "huge pages" not in said or "control group" not in said


def test_auto_takes_what_there_is(monkeypatch: pytest.MonkeyPatch):
    def refuse(*arguments: object) -> None:
        raise UserError("no groups" if arguments else "no pages")

    monkeypatch.setattr(options, "require_rights", lambda: None)
    monkeypatch.setattr(options, "choose_groups", lambda *arguments: [])
    assert choose_method("auto") == "cgroup"
    monkeypatch.setattr(options, "choose_groups", refuse)
    assert choose_method("auto") == "hugepages"
    monkeypatch.setattr(options, "require_rights", refuse)
    for place, why in ((object(), "no groups"), (None, "no pages")):
        monkeypatch.setattr(options, "find_place", lambda controller, place=place: place)
        with pytest.raises(UserError, match=why):
            choose_method("auto")


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="tiers need Linux"):
        choose_method("auto")


def test_a_limit_that_cannot_be_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """As that of CPUs where systemd has handed a user memory alone."""

    def choose(controllers: list[str], name: str) -> list[object]:
        if CPUS in controllers:
            raise UserError("no right to limit the CPUs")
        return []

    monkeypatch.setattr(holding, "choose_groups", choose)
    monkeypatch.setattr(sweep, "check_capacity", lambda tiers, method, servers: None)
    server = SimpleNamespace(check=lambda tiers: None, folders=lambda kind, count: [tmp_path])
    assert len(sweep.Sweep("32MB:256MB", "cgroup", server).conditions(1000, 8)) == 1
    with pytest.raises(UserError, match="no right to limit the CPUs"):
        sweep.Sweep("32MB:256MB,32MB:256MB+1cpus", "cgroup", server).conditions(1000, 8)
