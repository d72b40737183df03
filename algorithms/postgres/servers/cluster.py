"""The folder of a server of our own, which the user can name and delete.

lock                 held while a process uses the folder
pg18/data            the cluster, one for each major version
pg18/log             the server's messages
install-VERSION-...  copy of the programs, only where the server's account cannot reach them
"""

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg

from ..environment import OTHER_FOLDER, PREFIX
from ..errors import FolderInUseError, PostgresError
from . import folder_files
from .account import ServerAccount
from .folder_files import place_for_root

_STOP_SECONDS = 120
_IDLE_SECONDS = 3.0  # without work, of processes that write all to disk until they end
_LAST = ("postgres: io worker", "postgres: checkpointer")


def end_postmaster(process: psutil.Process | None) -> None:
    """Stop a postmaster: fast shutdown, then immediate, then by force.

    PostgreSQL 18 can wait forever when it is to shut down while it recovers from the crash of a session: the
    recovery ends, and then its I/O workers and its checkpointer do nothing more. An immediate shutdown ends
    them and loses nothing, because the next start recovers.
    """
    if process is None:
        return
    for signal_number, patience in (
        (signal.SIGINT, _STOP_SECONDS),
        (signal.SIGQUIT, 10),
        (signal.SIGKILL, 10),
    ):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal_number)
        if _ends_within(process, patience):
            return


def _ends_within(process: psutil.Process, seconds: float) -> bool:
    """Wait for its end; return at once where it will not come."""
    began = since = time.monotonic()
    work = None
    while (now := time.monotonic()) < began + seconds:
        if _has_ended(process):
            return True
        if now > since + _IDLE_SECONDS:
            before, work = work, _last_work(process)
            if work is not None and work == before:
                return False
            since = now
        time.sleep(0.01)
    return False


def _last_work(process: psutil.Process) -> list[tuple[int, float]] | None:
    """Return the CPU time of the last processes of a shutdown, None while others run or a disk works."""
    found = []
    try:
        for child in process.children():
            if not child.cmdline()[0].startswith(_LAST) or child.status() == psutil.STATUS_DISK_SLEEP:
                return None
            times = child.cpu_times()
            found.append((child.pid, times.user + times.system))
    except (psutil.Error, IndexError):  # one has just ended
        return None
    return found or None


def _has_ended(process: psutil.Process) -> bool:
    """Whether it has ended, also where nobody asks for its exit status, as in a container without an init."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


_NOBODY = str(2**31 - 1)  # a pid that no system gives
SOCKET_PREFIX = "ann-pg-"
_MOST_OF_LOG, _MOST_OF_PID_FILE = 1 << 20, 4096  # bytes that are read
_LONGEST_SOCKET_FOLDER = 80  # of the 107 bytes that a Unix socket's path may have


class ClusterFolder:
    """One folder, used by one process at a time, with a cluster for each major version."""

    def __init__(self, root: Path | None, account: ServerAccount) -> None:
        """Take the folder (None: the default) and the account that the server runs as."""
        self._named = (root or default_folder(account)).absolute()
        self.root = self._named.resolve()
        self.socket_folder: Path | None = None
        self._account = account
        self._lock: IO[str] | None = None

    def take(self) -> None:
        """Make the folder and lock it for this process; PostgresError where it cannot be used."""
        try:
            self._account.own(self._named)
        except OSError as error:
            raise self._unusable(error) from None
        if not self._account.can_reach(self.root):
            raise PostgresError(
                f"the account '{self._account.name}' that runs PostgreSQL cannot enter {self.root}: "
                f"name {OTHER_FOLDER}, that it can enter"
            )
        number = self._perform(folder_files.open_file, self.root / "lock", os.O_RDWR | os.O_CREAT)
        lock = os.fdopen(number, "r+", errors="replace")
        is_free = True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_free = False
        if not is_free:  # not raised above: the lock's error is that of a lack of processes
            holder = re.match(r"\d*", lock.read(20))
            lock.close()
            raise FolderInUseError(
                f"{self.root} is in use by process {(holder and holder[0]) or 'unknown'}: "
                f"wait for it, or name {OTHER_FOLDER}"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def give_back(self) -> None:
        """Remove the socket, and let another process use the folder."""
        if self.socket_folder is not None:
            with suppress(OSError, subprocess.SubprocessError):
                self._account.remove(self.socket_folder)
            self.socket_folder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def choose_version(self, version: str) -> None:
        """Use the cluster of a version's major version."""
        major = re.match(r"\d+", version)
        self._home = self.root / f"pg{major.group() if major else version}"
        self.data = self._home / "data"
        self.log = self._home / "log"
        self._perform(folder_files.make_folder, self._home)

    def partial_data(self) -> Path:
        """Return where a cluster is made, to be kept: an interrupted initdb is never taken for one."""
        partial = self._home / "data.partial"
        self._perform(folder_files.remove, partial)
        return partial

    def discard(self) -> None:
        """Remove the cluster, if there is one, so that no part of it is ever taken for it."""
        partial = self.partial_data()
        if os.path.lexists(self.data):
            self._perform(Path.rename, self.data, partial)
            self._perform(folder_files.remove, partial)

    def mark_as_standby(self, partial: Path) -> None:
        """Have a copy of another server's cluster follow that one when it is started."""
        flags = os.O_WRONLY | os.O_CREAT
        os.close(self._perform(folder_files.open_file, partial / "standby.signal", flags))

    def keep(self, partial: Path) -> None:
        """Keep a cluster that is whole."""
        self._perform(Path.rename, partial, self.data)

    def open_log(self) -> IO[bytes]:
        """Open an empty log."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.fdopen(self._perform(folder_files.open_file, self.log, flags), "wb")

    def last_words(self) -> str:
        """The last error in the server's log, on one line, with the log's path."""
        try:
            lines = self._account.perform(folder_files.end_of, self.log, _MOST_OF_LOG).splitlines()
        except OSError:
            lines = []
        grave = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR):", line)] or lines[-1:]
        # What it answers to who connects while it starts or ends says nothing of why.
        grave = [line for line in grave if "FATAL:  the database system is " not in line] or grave
        last = re.sub(r"^.*?\b(?=(FATAL|PANIC|ERROR):)", "", grave[-1]) if grave else "it wrote nothing"
        return f"{last} (log: {self.log})"

    def make_socket_folder(self) -> Path:
        """Make the folder of the socket, elsewhere if its path would be too long."""
        folder = self._home / "socket"
        if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
            folder = Path(self._perform(folder_files.make_temporary, SOCKET_PREFIX))
        else:
            self._perform(folder_files.make_folder, folder)
        self.socket_folder = folder
        return folder

    def stop_leftover(self) -> None:
        """Stop a server whose run was killed: we hold the lock, so nobody else uses it."""
        self._perform(stop_leftover, self.data, self._home / "socket")

    def remove_orphans(self, connection: psycopg.Connection[Any]) -> None:
        """Delete the files of relations that a crash cut off: PostgreSQL keeps them without using them.

        Nobody else may be connected, so that every file belongs to a relation that can be seen.
        """
        database = connection.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        known = connection.execute("SELECT pg_relation_filenode(oid) FROM pg_class").fetchall()
        assert database is not None
        folder, filenodes = self.data / "base" / str(database[0]), {str(filenode) for (filenode,) in known}
        self._perform(folder_files.remove_relations, folder, filenodes)

    def _perform(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns when the account calls it; PostgresError where it cannot."""
        try:
            return self._account.perform(action, *arguments)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: OSError) -> PostgresError:
        return PostgresError(f"cannot use {self.root} for the server: {error.strerror}; name {OTHER_FOLDER}")


def stop_leftover(data: Path, socket_folder: Path) -> None:
    """Stop the server that a data folder's pid file names, and remove its socket.

    The process is ours only if it works in our folder: a pid is given to others in time, and in a new
    container at once. PostgreSQL would take any process of that pid for the server that it was. Whoever calls
    this can send signals to its own processes alone, whatever the file says.
    """
    file = data / "postmaster.pid"
    try:
        lines = folder_files.end_of(file, _MOST_OF_PID_FILE).splitlines()
    except FileNotFoundError:
        return
    except OSError:  # no file, and PostgreSQL would wait at a pipe
        folder_files.remove(file)
        return
    try:
        process = psutil.Process(int(lines[0]))
        if process.name() == "postgres" and Path(process.cwd()) == data:
            end_postmaster(process)
        else:
            # The rest stays: by its shared memory, PostgreSQL finds backends that outlived the server.
            with os.fdopen(folder_files.open_file(file, os.O_WRONLY | os.O_TRUNC), "w") as opened:
                opened.write("\n".join([_NOBODY, *lines[1:], ""]))
        named = Path(lines[4])
    except (OSError, ValueError, OverflowError, IndexError, psutil.Error):
        return
    if named == socket_folder or named.name.startswith(SOCKET_PREFIX):
        with suppress(OSError):
            folder_files.remove(named)


def default_folder(account: ServerAccount) -> Path:
    """`data/postgres` under the current folder, else under /var/tmp; there, it is named after that folder.

    Elsewhere, where the account cannot go: root's folders are often closed to everybody else. And where root
    cannot make it safely, unless it is the account's already.
    """
    here = Path.cwd() / "data" / "postgres"
    made = next(path for path in (here, *here.parents) if os.path.lexists(path))
    if account.can_reach(made) and (
        not account.is_other or account.has(here.resolve()) or place_for_root(here)
    ):
        return here
    name = re.sub(r"\W+", "-", str(Path.cwd())).strip("-")
    return Path("/var/tmp") / "ann-benchmarks" / name


def folder_beside(folder: Path, name: str) -> Path:
    """Return the folder of another server, on the same disk; PostgresError where that is another disk."""
    if os.path.ismount(folder):
        raise PostgresError(
            f"{folder} is a disk of its own, and other servers have their folders beside it, on another disk:"
            f" name a folder on it, such as {PREFIX}DATA={folder / 'postgres'}"
        )
    return folder.with_name(f"{folder.name}-{name}")
