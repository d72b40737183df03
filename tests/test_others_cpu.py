"""The CPU that others take in a run: a process that burns a core is ours if we have started it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.jobs.job import Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.observed import OTHERS, RunWatch, UndisturbedRuns, others_facts
from ann_benchmarks.measure.timed import Subject, measure_each
from ann_benchmarks.monitoring import machine as others
from ann_benchmarks.monitoring.machine import CPUReading, is_disturbed, read_cpu, share_of_others
from ann_benchmarks.plugin import NoWatch, Plugin
from ann_benchmarks.results.remarks import MOST_OTHERS
from ann_benchmarks.results.warnings import warnings_of

from .report_data import make_run

pytestmark = pytest.mark.thorough

QUERIES = np.arange(8, dtype=np.float32)[:, np.newaxis]
BURN = "import os\nwhile os.getppid() == {}: pass"
DETACHED = "import os, sys\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@contextmanager
def burning() -> Iterator[int]:
    """Have a child burn a core."""
    with subprocess.Popen([sys.executable, "-c", BURN.format(os.getpid())]) as child:
        try:
            time.sleep(0.1)
            yield child.pid
        finally:
            child.kill()


@contextmanager
def foreign() -> Iterator[int]:
    """Have a process that is no descendant of ours burn a core, for a minute at most."""
    burn = f"{DETACHED}import time\nend = time.time() + 60\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE, text=True) as starter:
        pid = int(starter.stdout.readline())
        try:
            yield pid
        finally:
            os.kill(pid, 9)


def burn(pid: int, seconds: float = 0.4) -> None:
    """Wait until it has used so much CPU more, however little of it a busy machine leaves to it."""
    end = sum(psutil.Process(pid).cpu_times()[:2]) + seconds
    time.sleep(seconds)
    while sum(psutil.Process(pid).cpu_times()[:2]) < end:
        time.sleep(0.02)


def reading(moment: float, left: float, own: float, total: float | None = None) -> CPUReading:
    return CPUReading(moment, 2, left, 2 * moment if total is None else total, own)


@pytest.mark.parametrize(
    ("left", "own", "share"),
    [(20, 0, 0), (0, 20, 0), (10, 10, 0), (8, 10, 0.1), (0, 0, 1), (10, 0, 0.5), (12, 12, 0), (5, 9, 0.3)],
)  # fmt: skip
def test_what_is_neither_left_nor_ours_is_others(left: float, own: float, share: float):
    """Of two CPUs in 10 s."""
    assert share_of_others(reading(5, 100, 3), reading(15, 100 + left, 3 + own)) == pytest.approx(share)


def test_a_share_that_cannot_be_known():
    before = reading(5, 100, 3)
    assert share_of_others(before, reading(5.2, 100, 3)) is None  # too short
    assert share_of_others(before, None) is None
    assert share_of_others(None, before) is None
    assert share_of_others(before, reading(15, 100, 3, total=10)) is None  # the CPUs' clocks stand still
    assert share_of_others(before, CPUReading(15, 4, 100, 50, 3)) is None  # more CPUs than before
    assert not is_disturbed(None)
    assert not is_disturbed(MOST_OTHERS)
    assert is_disturbed(MOST_OTHERS + 0.001)


@on_linux
def test_a_child_that_burns_a_core_is_ours():
    with burning() as child:
        before = read_cpu([])
        burn(child)
        after = read_cpu([])
    ended = read_cpu([])
    assert after.own - before.own > 0.35
    assert ended.own >= after.own - 0.05  # that of a child that has ended counts on


@on_linux
def test_a_foreign_process_that_burns_a_core_is_others_unless_it_is_the_server():
    with foreign() as pid:
        before, of_server = read_cpu([]), read_cpu([pid])
        burn(pid)
        after, of_server_after = read_cpu([]), read_cpu([pid])
    burnt = of_server_after.own - of_server.own - (after.own - before.own)
    assert burnt > 0.35
    share, without = share_of_others(before, after), share_of_others(of_server, of_server_after)
    of_all = burnt / CORES / (after.moment - before.moment)
    assert share > 0.7 * of_all - 0.02
    assert share - without == pytest.approx(of_all, abs=0.1)


@on_linux
def test_a_server_that_is_gone_or_not_known():
    assert read_cpu([]) is not None
    assert read_cpu(None) is None
    assert read_cpu([2**22 + 1]) is None


def test_without_proc_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(others, "_PROC", tmp_path / "none")
    assert read_cpu([]) is None


@on_linux
def test_names_of_processes_with_brackets_and_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And the kernel's threads: those that serve disks are ours, those that serve the machine are not."""
    own = os.getpid()
    names = {own: ("a) S (b", 1, 10), 7: ("x) 9 9", own, 5), 8: ("child", 7, 1), 9: ("other", 1, 100),
             2: ("kthreadd", 0, 0), 30: ("kworker/0:1", 2, 2), 31: ("kdamond.0", 2, 1000)}  # fmt: skip
    for process, (name, parent, ticks) in names.items():
        (tmp_path / str(process)).mkdir()
        stat = f"{process} ({name}) S {parent} " + "0 " * 9 + f"{ticks} {ticks} {ticks} {ticks} 20 0\n"
        (tmp_path / str(process) / "stat").write_text(stat)
    cpus = "".join(f"cpu{cpu} 1 2 3 400 50 6 7 8 0 0\n" for cpu in os.sched_getaffinity(0))
    (tmp_path / "stat").write_text(f"cpu  9 9 9 9 9 9 9 9 0 0\n{cpus}cpu999 1 1 1 1 1 1 1 1 0 0\nintr 5\n")
    monkeypatch.setattr(others, "_PROC", tmp_path)
    tick = 1 / os.sysconf("SC_CLK_TCK")
    found = read_cpu([])
    assert found.own == pytest.approx(4 * tick * (10 + 5 + 1 + 2))
    assert found.left == pytest.approx(tick * CORES * (400 + 50 + 6 + 7))
    assert found.total == pytest.approx(tick * CORES * 477)
    assert found.cpus == CORES
    assert read_cpu([9]).own == pytest.approx(4 * tick * 118)
    assert read_cpu([10]) is None


@pytest.fixture(autouse=True)
def as_outside_of_tests(nothing_is_measured_again: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Know what others take."""
    monkeypatch.setattr("ann_benchmarks.measure.observed.read_cpu", read_cpu)


class Scripted:
    """Stands for runs, in each of which others took the next share."""

    def __init__(self, *shares: float | None) -> None:
        self.shares, self.made = list(shares), 0

    def __call__(self, *_: Any) -> Measured:
        share = self.shares.pop(0)
        self.made += 1
        facts = {} if share is None else {OTHERS: share}
        return Measured(np.zeros(1), np.zeros((1, 1)), float(self.made), facts)


def test_a_disturbed_run_is_measured_again_so_many_times():
    repeats = UndisturbedRuns(3)
    quiet = repeats.least_disturbed(Scripted(0.05))
    assert (quiet.repeats, quiet.seconds_per_query) == (0, 1)
    second = repeats.least_disturbed(Scripted(0.5, 0.02))
    assert (second.repeats, second.seconds_per_query) == (1, 2)
    least = repeats.least_disturbed(Scripted(0.5, 0.2, 0.3))  # twice in vain
    assert (least.repeats, least.seconds_per_query) == (2, 2)
    none_left = repeats.least_disturbed(Scripted(0.9))
    assert none_left.repeats == 0
    unknown = UndisturbedRuns(3).least_disturbed(Scripted(None))
    assert unknown.repeats == 0
    repeats = UndisturbedRuns(9)
    assert repeats.least_disturbed(Scripted(0.5, 0.2, 0.05)).repeats == 2
    assert repeats.least_disturbed(Scripted(0.5, 0.2, 0.3)).repeats == 2
    assert repeats.least_disturbed(Scripted(0.5)).repeats == 0
    assert UndisturbedRuns(3, lambda: False).least_disturbed(Scripted(0.9)).repeats == 0
    assert others_facts([quiet, second, least, none_left]) == {
        "run_others_cpu": [0.05, 0.02, 0.2, 0.9],
        "runs_measured_again": 3,
    }
    assert others_facts([quiet, unknown]) == {"run_others_cpu": None, "runs_measured_again": 0}


class Echo(BaseANN):
    """Answers with the query's number; counts."""

    def __init__(self) -> None:
        self.cooled = self.answered = 0

    def query(self, q: np.ndarray, n: int) -> list[int]:
        self.answered += 1
        return [int(q[0])]

    def batch_query(self, X: np.ndarray, n: int) -> None:
        self.answered += len(X)

    def get_batch_results(self) -> list[list[int]]:
        return [[int(x[0])] for x in QUERIES]

    def cool(self) -> None:
        self.cooled += 1


@pytest.fixture
def told_shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shares that the next runs are said to have had."""
    shares: list[float] = []
    monkeypatch.setattr("ann_benchmarks.measure.observed.share_of_others", lambda *_: shares.pop(0))
    return shares


@pytest.mark.parametrize("how", ["one by one", "batch", "cold", "clients", "cold clients"])
def test_every_kind_of_run_is_measured_again(how: str, told_shares: list[float]):
    told_shares += [0.3, 0.02, 0.04, 0.9, 0.8, 0.9]
    algo = Echo()
    subject = Subject(Plugin(algo), QUERIES, 1, len(QUERIES))
    warmup = Warmup("off") if "cold" in how else None
    if "clients" in how:
        load = Load(1, max_queries=8)
        runs = LoadedPoint(subject, load).measure(warmup or Warmup("queries", 8), range(3))
    else:
        runs = measure_each(subject, Procedure(3, batch=how == "batch", warmup=warmup), 3)
    assert [run.facts[OTHERS] for run in runs] == [0.02, 0.04, 0.8]
    assert [run.repeats for run in runs] == [1, 0, 2]  # three of three
    assert algo.cooled == (6 if "cold" in how else 0)
    assert not told_shares


def test_a_plug_in_whose_server_is_not_known_has_no_share():
    class Silent:
        """A watch without processes()."""

        running, facts, close = NoWatch.running, NoWatch.facts, NoWatch.close

    watch = RunWatch(Silent(), None)
    with watch.running():
        time.sleep(0.35)
    assert watch.facts(1) == {}
    if sys.platform == "linux":
        watch = RunWatch(NoWatch(), None)
        with watch.running():
            time.sleep(0.35)
        assert 0 <= watch.facts(1)[OTHERS] <= 1


def test_a_report_says_how_much_was_left_out():
    runs = [make_run("a", runs_measured_again=2, run_count=5), make_run("b", run_count=5)]
    texts = [text for text, _ in warnings_of(runs)]
    assert any("2 were left out and measured again; 10 are counted" in text for text in texts), texts
    assert not any("left out" in text for text, _ in warnings_of(runs[1:]))
