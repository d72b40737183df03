"""What dies in the middle of many clients' queries, and what is left of it: run.py, seen from outside."""

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres.clients import member, serving
from ann_benchmarks.algorithms.postgres.clients.work import MemberFailure

from .conftest import make_dataset
from .programs import ROOT, temporary_folder

pytestmark = pytest.mark.thorough

CLIENT, WATCH = "ann_benchmarks_client", "ann_benchmarks_watch"  # that a connection is, in the server's words
COUNT_OF = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
KILLED = " ended before it answered.*"
OF_CLIENTS = r"(client|the process of clients) \d+( to \d+)?"  # as many as a core has
PATIENCE = 60  # s
MARK = "ANN_TEST_LOAD_FAILURES"  # in the environment of what a run starts

DEFINITIONS = """
    float:
      any:
      - &six
        name: six
        module: ann_benchmarks.algorithms.pgvector_hnsw
        constructor: PGVectorHNSW
        docker_tag: none
        base_args: ['@metric']
        run_groups:
          all: {args: [{M: 8, efConstruction: 32}], query_args: [[10, 20, 30, 40, 50, 60]]}
      - <<: *six
        name: two
        run_groups:
          all: {args: [{M: 8, efConstruction: 32}], query_args: [[10, 20]]}
"""


class Run:
    """run.py with clients, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._memory: set[Path] = set()
        self._segments: set[str] = set()
        self._connection: psycopg.Connection[Any] | None = None
        environment = os.environ | {
            "ANN_BENCHMARKS_PG_DATA": str(folder / "server"),
            "TMPDIR": str(folder / "tmp"),
            MARK: str(folder),
        }
        command = [sys.executable, str(ROOT / "run.py"), "--local", "--definitions", "definitions"]
        command += ["--dataset", "small", "--runs", "1", "--algorithm", *options]
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True
            )

    def err(self) -> list[str]:
        return (self.folder / "err").read_text().splitlines()

    def failed(self) -> list[str]:
        return [line for line in self.err() if line.startswith("failed: ")]

    def out(self) -> list[str]:
        return (self.folder / "out").read_text().splitlines()

    def counts(self) -> list[int]:
        """Points done, skipped and failed, of the last line of the table."""
        return [int(word) for word in self.out()[-1].split()[-5:-2]]

    def stored(self) -> list[str]:
        """The query argument of each point whose result is there."""
        return sorted(path.stem.rpartition("_")[2] for path in (self.folder / "results").rglob("*.hdf5"))

    def postmaster(self) -> psutil.Process:
        return psutil.Process(int(self._of_postmaster(1)))

    def worker(self) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        (worker,) = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        return worker

    def clients(self) -> list[psutil.Process]:
        found = []
        for one in processes_of(self.folder):
            try:
                parent = one.parent()
                if parent is not None and "become_clients" in " ".join(parent.cmdline()):
                    found.append(one)
            except psutil.Error:
                continue
        return found

    def backend(self) -> int:
        """The server's process for one of the clients."""
        sql = "SELECT pid FROM pg_stat_activity WHERE application_name = %s LIMIT 1"
        return int(self.ask(sql, CLIENT)[0][0])

    def ask(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Ask its server, which may not be there."""
        try:
            if self._connection is None or self._connection.closed:
                (place,) = self.folder.glob("server/pg*/socket")
                self._connection = psycopg.connect(
                    host=str(place), port=5432, user="ann", dbname="ann", autocommit=True
                )
            return self._connection.execute(sql.encode(), parameters).fetchall()
        except (psycopg.Error, ValueError):
            self._connection = None
            return []

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert self.process.poll() is None, [*self.out(), *self.err()]
            assert time.monotonic() < deadline, [*self.out(), *self.err()]
            time.sleep(0.03)  # it takes CPU

    def until_middle(self, clients: int, ended: int) -> None:
        """Wait until so many points have ended, and in the next one so many clients are measured."""

        def is_there() -> bool:
            if sum(": recall " in line for line in self.out()) + len(self.failed()) < ended:
                return False
            return self.ask(COUNT_OF, CLIENT) == [(clients,)] and self.ask(COUNT_OF, WATCH) == [(1,)]

        self.until(is_there)
        time.sleep(0.1)  # from the watch's beginning to that of the run
        self._segments.add(self._of_postmaster(7).split()[1])
        maps = Path(f"/proc/{self._of_postmaster(1)}/maps")
        if maps.exists():
            paths = {Path(line.split()[-1]) for line in maps.read_text().splitlines()}
            self._memory |= {path for path in paths if path.is_relative_to("/dev/shm")}

    def ends(self, status: int) -> None:
        """Wait for the end, and see that nothing is left: process, shared memory, file, socket."""
        try:
            assert self.process.wait(PATIENCE) == status, [*self.out(), *self.err()]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it hangs: {[*self.out(), *self.err()]}") from None
        if self._connection is not None:
            self._connection.close()
        deadline = time.monotonic() + PATIENCE
        while (left := processes_of(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, [one.cmdline() for one in left]
        assert not [path for path in self._memory if path.exists()]
        segments = Path("/proc/sysvipc/shm")
        if segments.exists():
            there = {line.split()[1] for line in segments.read_text().splitlines()[1:]}
            assert not self._segments & there
        assert not list((self.folder / "tmp").iterdir())
        kinds = ("failed: ", "warning: ", "interrupted; ", "terminated; ")
        assert all(line.startswith(kinds) for line in self.err()), self.err()
        files = list(self.folder.rglob("*"))
        assert not [file for file in files if file.is_socket() or file.name == "postmaster.pid"]

    def _of_postmaster(self, line: int) -> str:
        (file,) = self.folder.glob("server/pg*/data/postmaster.pid")
        return file.read_text().splitlines()[line - 1]


def processes_of(folder: Path) -> list[psutil.Process]:
    """All that runs in a folder started, also what has lost its parent; not what has ended already."""
    found = []
    for one in psutil.process_iter():
        try:
            # PostgreSQL's processes write over their environment.
            is_here = Path(one.cwd()).is_relative_to(folder) or one.environ().get(MARK) == str(folder)
            if is_here and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """A folder that a server's account can enter, with a dataset; the first run builds the index."""
    with temporary_folder() as folder:
        (folder / "tmp").mkdir()
        (folder / "definitions/hnsw").mkdir(parents=True)
        (folder / "definitions/hnsw/config.yml").write_text(dedent(DEFINITIONS))
        make_dataset("small", "angular", 2000, 12, queries=50, neighbours=100, folder=folder / "data")
        yield folder


@pytest.fixture
def folder(prepared: Path) -> Iterator[Path]:
    """The same, with no results; what a test that failed has left running is ended."""
    shutil.rmtree(prepared / "results", ignore_errors=True)
    yield prepared
    for one in processes_of(prepared):
        with suppress(psutil.NoSuchProcess):
            if one.name() != "postgres":  # which ends with its parent, and leaves no shared memory
                one.kill()
    psutil.wait_procs(processes_of(prepared), timeout=10)


def test_a_death_costs_its_point_and_no_more(folder: Path) -> None:
    run = Run(folder, "six", "--clients", "12", "--duration", "1", "--warmup", "64")
    # After each point that fails, one is measured.
    run.until_middle(12, ended=0)
    run.clients()[-1].kill()

    run.until_middle(12, ended=1)
    frozen = run.clients()[0]
    frozen.suspend()  # which holds the others up, and no more
    time.sleep(1)
    frozen.resume()

    run.until_middle(12, ended=2)
    os.kill(run.backend(), signal.SIGKILL)

    run.until_middle(12, ended=4)
    run.postmaster().kill()

    run.ends(1)
    lost = ": the connection was lost: .*(closed|terminating) (the )?connection .*"
    for line, ef, reason in zip(run.failed(), (10, 30, 50), (KILLED, lost, lost), strict=True):
        assert re.fullmatch(rf"failed: six\(.*, {ef}\) by 12 clients: {OF_CLIENTS} of 12{reason}", line)
    assert run.stored() == ["20", "40", "60"]
    assert run.counts() == [3, 0, 3]


def test_after_an_end_the_same_command_goes_on(folder: Path) -> None:
    command = ("two", "--clients", "8", "--duration", "0.8", "--warmup", "64")
    run = Run(folder, *command)
    run.until_middle(8, ended=1)
    run.process.kill()
    run.ends(-signal.SIGKILL)
    assert run.stored() == ["10"]

    run = Run(folder, *command)
    run.until_middle(8, ended=0)
    run.clients()[-1].suspend()  # and it does not go on
    os.killpg(run.process.pid, signal.SIGINT)
    run.ends(130)

    run = Run(folder, *command)
    run.until_middle(8, ended=0)
    run.process.terminate()
    run.ends(143)
    assert run.stored() == ["10"]

    run = Run(folder, *command)
    run.ends(0)
    assert run.stored() == ["10", "20"]
    assert run.counts() == [1, 1, 0]


def test_a_death_in_the_search_for_a_recall(folder: Path) -> None:
    options = ("--clients", "4,3", "--duration", "0.3", "--warmup", "40", "--target-recall", "0.9")
    run = Run(folder, "two", *options)

    def has_failed() -> bool:
        for client in run.clients()[-1:]:  # those of a value are soon gone
            with suppress(psutil.Error):
                client.kill()
        return bool(run.failed())

    run.until(has_failed)
    run.ends(1)
    (line,) = run.failed()
    assert re.fullmatch(rf"failed: two\(.*\) by 4 clients: {OF_CLIENTS} of 4{KILLED}", line)
    (result,) = (folder / "results").rglob("*.hdf5")
    assert result.parent.name == "two-c3"


def test_a_client_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    def no_child() -> int:  # of its own; the tests may have some
        raise ChildProcessError

    monkeypatch.setattr(member.os, "fork", refuse)
    monkeypatch.setattr(member.os, "wait", no_child)
    monkeypatch.setattr(member.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(member.gc, "freeze", lambda: None)
    ours, theirs = socket.socketpair()
    book, arrivals = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
    (tmp_path / "parameters").write_bytes(bytes(16))  # of no query
    parameters = os.open(tmp_path / "parameters", os.O_RDONLY)
    serving.become_clients([theirs.detach()], [[book]], arrivals, parameters)
    with Connection(ours.detach()) as pipe:
        assert pipe.recv() == MemberFailure(None, "cannot be started: Resource temporarily unavailable")
        with pytest.raises(EOFError):
            pipe.recv()
