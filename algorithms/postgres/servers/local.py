"""A server of our own: a cluster in one folder, on a Unix socket, gone when this process is.

Layout of the folder, which the user can name and delete:

    lock                 held while a process uses the folder
    pg18/data            the cluster, one for each major version
    pg18/log             what the server said
    install-VERSION-...  copy of the programs, only where the server's account cannot reach them
"""

import fcntl
import hashlib
import multiprocessing.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import psycopg

from .. import machine
from ..environment import OTHER_FOLDER, given_settings, variable
from ..errors import PostgresError
from ..settings import server_profile
from .account import Account, server_account
from .base import NOTICE_SECONDS, Server, library_list
from .numa import interleaving

DATABASE = "ann"
SUPERUSER = "ann"
_NOBODY = str(2**31 - 1)  # a pid that no system gives
_PORT = "5432"  # a part of the socket's name, and nothing else
_START_SECONDS = 60
_ENDING_SECONDS = 15
_STILL_ENDING = "pre-existing shared memory block"  # in PostgreSQL's own words, which are English in locale C
_RECOVERING = ("starting up", "not yet accepting connections", "in recovery mode")
_STOP_SECONDS = 120
_SOCKET_PREFIX = "ann-pg-"
_LONGEST_SOCKET_FOLDER = 80  # of the 107 bytes that a Unix socket's path may have


class LocalServer(Server):
    """One cluster of our own, run by the programs in `binaries`."""

    def __init__(self, binaries: Path, folder: Path | None) -> None:
        """Take the programs' folder and the one to keep everything in (None: the default)."""
        self._account = server_account()
        self._binaries = binaries
        self._root = (folder or default_folder(self._account)).resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        self._socket_folder: Path | None = None
        self._finalizer: Any = None
        self._wanted_libraries: list[str] = []
        self._loaded_libraries: list[str] = []
        self._settings: Mapping[str, str] = {}

    @property
    def data_folder(self) -> Path:
        """The folder that holds all it keeps."""
        return self._root

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        return self._binaries

    def connection_parameters(self) -> dict[str, Any]:
        """Keyword arguments of libpq."""
        return {
            "host": str(self._socket_folder),
            "port": _PORT,
            "user": SUPERUSER,
            "dbname": DATABASE,
            "gssencmode": "disable",
            "options": "",
        }

    def start(self, settings: Mapping[str, str]) -> None:
        """Start it; a server that a killed run left behind is stopped first."""
        if self._process is not None:
            return
        self._settings = settings
        self._prepare_folder()
        self._take_lock()
        # Runs at the end of this process, also of a multiprocessing worker, where atexit does not.
        self._finalizer = multiprocessing.util.Finalize(self, self.stop, exitpriority=10)
        try:
            self._make_programs_reachable()
            self._choose_version_folder()
            self._stop_leftover()
            if not self._data.exists():
                self._initialise()
            self._run(settings)
        except BaseException:
            self.stop()
            raise

    def revive(self) -> None:
        """Start it again if it has ended, and wait until it has recovered."""
        time.sleep(NOTICE_SECONDS)
        if self._process is not None and self._process.poll() is None:
            self._wait_until_ready()
        else:
            self.restart(self._settings)

    def preload(self, library: str) -> None:
        """Start it again with the library, unless it has that already."""
        if library not in self._loaded_libraries:
            self._wanted_libraries.append(library)
            self.restart(self._settings)

    def stop(self) -> None:
        """Shut it down: fast, then harder."""
        process, self._process = self._process, None
        if process is not None:
            end_postmaster(psutil.Process(process.pid) if process.poll() is None else None)
            process.wait()
        self._remove_socket_folder()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None

    # Preparing

    def _prepare_folder(self) -> None:
        try:
            self._account.own(self._root)
        except OSError as error:
            raise self._unusable(error) from None
        if not self._account.can_reach(self._root):
            raise PostgresError(
                f"the account '{self._account.name}' that runs PostgreSQL cannot enter {self._root}: "
                f"name {OTHER_FOLDER}, that it can enter"
            )

    def _unusable(self, error: OSError) -> PostgresError:
        return PostgresError(f"cannot use {self._root} for the server: {error.strerror}; name {OTHER_FOLDER}")

    def _take_lock(self) -> None:
        try:
            lock = _open_ours(self._root / "lock", "a+")
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise PostgresError(
                f"{self._root} is in use by process {holder}: wait for it, or name {OTHER_FOLDER}"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _make_programs_reachable(self) -> None:
        """Copy the programs where the server's account cannot reach them, as in root's home folder."""
        if self._account.can_reach(self._binaries / "postgres"):
            return
        home = self._binaries.parent
        package = home.parent
        version = self._command("postgres", "--version", as_account=False).split()[2]
        parts = [*home.rglob("*.so"), *home.rglob("*.control")]  # another extension's release is another copy
        mark = hashlib.sha256(repr(sorted((file.name, file.stat().st_size) for file in parts)).encode())
        copy = self._root / f"install-{version}-{mark.hexdigest()[:8]}"
        if not copy.exists():
            for old in self._root.glob("install-*"):
                shutil.rmtree(old, ignore_errors=True)
            partial = copy.with_suffix(".partial")
            shutil.copytree(home, partial / package.name / home.name, symlinks=True)
            # A wheel keeps the libraries that its programs are linked to beside its package.
            for libraries in package.parent.glob(f"{package.name}.libs"):
                shutil.copytree(libraries, partial / libraries.name)
            for path in [partial, *partial.rglob("*")]:
                os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)
            partial.rename(copy)
        self._binaries = copy / package.name / home.name / "bin"

    def _choose_version_folder(self) -> None:
        version = self._command("postgres", "--version").split()[2]
        major = re.match(r"\d+", version)
        self._home = self._root / f"pg{major.group() if major else version}"
        self._data = self._home / "data"
        self._log = self._home / "log"
        self._account.own(self._home)

    def _stop_leftover(self) -> None:
        """Stop a server whose run was killed: we hold the lock, so nobody else uses it.

        The process is ours only if it works in our folder: a pid is given to others in time, and in a new
        container at once. PostgreSQL would take any process of that pid for the server that it was.
        """
        file = self._data / "postmaster.pid"
        try:
            lines = file.read_text().splitlines()
            process = psutil.Process(int(lines[0]))
            if process.name() == "postgres" and Path(process.cwd()) == self._data:
                end_postmaster(process)
            else:
                # The rest stays: by its shared memory, PostgreSQL finds backends that outlived the server.
                self._rewrite(file, "\n".join([_NOBODY, *lines[1:], ""]))
            socket_folder = Path(lines[4])
        except (OSError, ValueError, IndexError, psutil.Error):
            return
        if socket_folder == self._home / "socket" or socket_folder.name.startswith(_SOCKET_PREFIX):
            self._socket_folder = socket_folder
            self._remove_socket_folder()

    def _rewrite(self, file: Path, text: str) -> None:
        """Put a text into a file that is there and stays its owner's."""
        with _open_ours(file, "r+") as opened:
            opened.truncate()
            opened.write(text)

    def _initialise(self) -> None:
        """Make the cluster beside its place, so that an interrupted initdb is never taken for one."""
        partial = self._home / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        self._command(
            "initdb", "--pgdata", str(partial), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C",
        )  # fmt: skip
        partial.rename(self._data)

    # Running

    def _run(self, settings: Mapping[str, str]) -> None:
        profile = server_profile(
            machine.memory_bytes(),
            machine.cores(),
            machine.free_disk_bytes(self._root),
            machine.posix_shared_memory_bytes(),
        )
        self._socket_folder = self._make_socket_folder()
        fixed = {
            "listen_addresses": "",
            "port": _PORT,
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
            "cluster_name": "",
        }
        chosen = {**profile, **given_settings(), **settings}
        given = chosen.get("shared_preload_libraries", "")
        self._loaded_libraries = library_list(given)
        missing = [name for name in self._wanted_libraries if name not in self._loaded_libraries]
        if missing:
            chosen["shared_preload_libraries"] = ",".join(filter(None, [given, *missing]))
            self._loaded_libraries += missing
        options = [f"--{name}={value}" for name, value in {**chosen, **fixed}.items()]
        patience = time.monotonic() + _ENDING_SECONDS
        while True:
            with _open_ours(self._log, "wb") as log:
                self._process = self._popen("postgres", "-D", str(self._data), *options, stdout=log)
            try:
                self._wait_until_ready()
                break
            except PostgresError:
                # After a crash, backends that are still ending hold its shared memory for a moment.
                if _STILL_ENDING not in self.last_words() or time.monotonic() > patience:
                    raise
                time.sleep(0.2)
        self._remove_orphans()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        maintenance = self.connection_parameters() | {"dbname": "postgres"}
        while True:
            try:
                with psycopg.connect(**maintenance, autocommit=True, connect_timeout=5) as connection:
                    exists = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
                    if exists.rowcount == 0:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                return
            except psycopg.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None:
                    raise PostgresError(f"PostgreSQL did not start: {self.last_words()}") from None
                if any(said in str(error) for said in _RECOVERING):
                    deadline = time.monotonic() + _START_SECONDS  # of a crash, which may take long
                if time.monotonic() > deadline:
                    reason = " ".join(str(error).split())
                    raise PostgresError(
                        f"PostgreSQL did not answer within {_START_SECONDS} s: {reason} (log: {self._log})"
                    ) from None
                time.sleep(0.02)

    def _remove_orphans(self) -> None:
        """Delete the files of relations that a crash cut off: PostgreSQL keeps what it no longer knows.

        Nobody else is connected yet, so that every file belongs to a relation that can be seen.
        """
        with self.connect() as connection:
            database = connection.execute(
                "SELECT oid FROM pg_database WHERE datname = current_database()"
            ).fetchone()
            known = connection.execute("SELECT pg_relation_filenode(oid) FROM pg_class").fetchall()
        assert database is not None
        filenodes = {str(filenode) for (filenode,) in known}
        for file in (self._data / "base" / str(database[0])).iterdir():
            relation = re.fullmatch(r"(\d+)(_[a-z]+)?(\.\d+)?", file.name)
            if relation and relation[1] not in filenodes:
                file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The last error in the server's log, on one line, with the log's path."""
        try:
            lines = self._log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        grave = [line for line in lines if re.search(r"\b(FATAL|PANIC|ERROR):", line)] or lines[-1:]
        said = re.sub(r"^.*?\b(?=(FATAL|PANIC|ERROR):)", "", grave[-1]) if grave else "it said nothing"
        return f"{said} (log: {self._log})"

    def _make_socket_folder(self) -> Path:
        folder = self._home / "socket"
        if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
            folder = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX))
        self._account.own(folder)
        return folder

    def _remove_socket_folder(self) -> None:
        if self._socket_folder is not None:
            with suppress(OSError):
                shutil.rmtree(self._socket_folder)
            self._socket_folder = None

    def _launch_arguments(self, groups: str, *command: str) -> list[str]:
        launcher = str(Path(__file__).with_name("launcher.py"))
        identity = [str(os.getpid()), str(self._account.uid), str(self._account.gid)]
        return [sys.executable, "-I", "-S", launcher, *identity, groups, *command]

    def _popen(self, program: str, *arguments: str, stdout: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [*interleaving(), str(self._binaries / program), *arguments]
        # A session of its own: Ctrl-C reaches us, and we decide when the server stops.
        return subprocess.Popen(
            self._launch_arguments(variable("GROUPS"), *command),
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT,
            cwd=self._root, env=_server_environment(), start_new_session=True,
        )  # fmt: skip

    def _command(self, program: str, *arguments: str, as_account: bool = True) -> str:
        """Run one of PostgreSQL's programs to its end and return what it printed."""
        command = [str(self._binaries / program), *arguments]
        if as_account:
            command = self._launch_arguments("", *command)
        done = subprocess.run(
            command, cwd=self._root, env=_server_environment(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            errors = [line for line in said if "error" in line.lower() or "fatal" in line.lower()] or said
            raise PostgresError(f"{program} failed: {errors[0]}")
        return done.stdout


def _open_ours(path: Path, mode: str) -> IO[Any]:
    """Open a file in the server's folder; never through a link, which its account could have laid there."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o600)

    return open(path, mode, opener=opener)


def default_folder(account: Account) -> Path:
    """`data/postgres` under the current folder, else under /var/tmp if the account cannot go there.

    Root's folders are often closed to everybody else. The name tells current folders apart.
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


def _server_environment() -> dict[str, str]:
    """Our environment without what would change the server's or libpq's mind."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return environment | {"LANG": "C", "LC_ALL": "C"}
