"""The folder of a server of our own, which the user can name and delete.

lock                 held while a process uses the folder
pg18/data            the cluster, one for each major version
pg18/log             the server's messages
install-VERSION-...  copy of the programs, only where the server's account cannot reach them
"""

import fcntl
import os
import re
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg

from ..environment import OTHER_FOLDER
from ..errors import PostgresError
from .account import ServerAccount

_NOBODY = str(2**31 - 1)  # a pid that no system gives
_STOP_SECONDS = 120
_SOCKET_PREFIX = "ann-pg-"
_LONGEST_SOCKET_FOLDER = 80  # of the 107 bytes that a Unix socket's path may have


class ClusterFolder:
    """One folder, used by one process at a time, with a cluster for each major version."""

    def __init__(self, root: Path | None, account: ServerAccount) -> None:
        """Take the folder (None: the default) and the account that the server runs as."""
        self.root = (root or default_folder(account)).resolve()
        self.socket_folder: Path | None = None
        self._account = account
        self._lock: IO[str] | None = None

    def take(self) -> None:
        """Make the folder and lock it for this process; PostgresError where it cannot be used."""
        try:
            self._account.own(self.root)
        except OSError as error:
            raise self._unusable(error) from None
        if not self._account.can_reach(self.root):
            raise PostgresError(
                f"the account '{self._account.name}' that runs PostgreSQL cannot enter {self.root}: "
                f"name {OTHER_FOLDER}, that it can enter"
            )
        try:
            lock = _open_ours(self.root / "lock", "a+")
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise PostgresError(
                f"{self.root} is in use by process {holder}: wait for it, or name {OTHER_FOLDER}"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def give_back(self) -> None:
        """Remove the socket, and let another process use the folder."""
        if self.socket_folder is not None:
            with suppress(OSError):
                shutil.rmtree(self.socket_folder)
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
        self._account.own(self._home)

    def partial_data(self) -> Path:
        """Return where a cluster is made, to be renamed: an interrupted initdb is never taken for one."""
        partial = self._home / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        return partial

    def open_log(self) -> IO[bytes]:
        """Open an empty log."""
        return _open_ours(self.log, "wb")

    def last_words(self) -> str:
        """The last error in the server's log, on one line, with the log's path."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        grave = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR):", line)] or lines[-1:]
        last = re.sub(r"^.*?\b(?=(FATAL|PANIC|ERROR):)", "", grave[-1]) if grave else "it wrote nothing"
        return f"{last} (log: {self.log})"

    def make_socket_folder(self) -> Path:
        """Make the folder of the socket, elsewhere if its path would be too long."""
        folder = self._home / "socket"
        if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
            folder = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX))
        self._account.own(folder)
        self.socket_folder = folder
        return folder

    def stop_leftover(self) -> None:
        """Stop a server whose run was killed: we hold the lock, so nobody else uses it.

        The process is ours only if it works in our folder: a pid is given to others in time, and in a new
        container at once. PostgreSQL would take any process of that pid for the server that it was.
        """
        file = self.data / "postmaster.pid"
        try:
            lines = file.read_text().splitlines()
            process = psutil.Process(int(lines[0]))
            if process.name() == "postgres" and Path(process.cwd()) == self.data:
                end_postmaster(process)
            else:
                # The rest stays: by its shared memory, PostgreSQL finds backends that outlived the server.
                with _open_ours(file, "r+") as opened:  # which stays its owner's
                    opened.truncate()
                    opened.write("\n".join([_NOBODY, *lines[1:], ""]))
            socket_folder = Path(lines[4])
        except (OSError, ValueError, IndexError, psutil.Error):
            return
        if socket_folder == self._home / "socket" or socket_folder.name.startswith(_SOCKET_PREFIX):
            with suppress(OSError):
                shutil.rmtree(socket_folder)

    def remove_orphans(self, connection: psycopg.Connection[Any]) -> None:
        """Delete the files of relations that a crash cut off: PostgreSQL keeps them without using them.

        Nobody else may be connected, so that every file belongs to a relation that can be seen.
        """
        database = connection.execute(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        known = connection.execute("SELECT pg_relation_filenode(oid) FROM pg_class").fetchall()
        assert database is not None
        filenodes = {str(filenode) for (filenode,) in known}
        for file in (self.data / "base" / str(database[0])).iterdir():
            relation = re.fullmatch(r"(\d+)(_[a-z]+)?(\.\d+)?", file.name)
            if relation and relation[1] not in filenodes:
                file.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> PostgresError:
        return PostgresError(f"cannot use {self.root} for the server: {error.strerror}; name {OTHER_FOLDER}")


def _open_ours(path: Path, mode: str) -> IO[Any]:
    """Open a file in the server's folder; never through a link, which its account could have put there."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600)

    return open(path, mode, opener=opener)


def default_folder(account: ServerAccount) -> Path:
    """`data/postgres` under the current folder, else under /var/tmp if the account cannot go there.

    Root's folders are often closed to everybody else. The name depends on the current folder.
    """
    here = Path.cwd() / "data" / "postgres"
    if account.can_reach(Path.cwd()):
        return here
    name = re.sub(r"\W+", "-", str(Path.cwd())).strip("-")
    return Path("/var/tmp") / "ann-benchmarks" / name


def end_postmaster(process: psutil.Process | None) -> None:
    """Stop a postmaster: fast shutdown, then immediate, then by force."""
    if process is None:
        return
    for signal_number, patience in (
        (signal.SIGINT, _STOP_SECONDS),
        (signal.SIGQUIT, 10),
        (signal.SIGKILL, 10),
    ):
        with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            process.send_signal(signal_number)
            process.wait(patience)
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return
