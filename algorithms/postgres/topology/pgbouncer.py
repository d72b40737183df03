"""The pooler pgbouncer: its program, its configuration, and one that runs beside its server's socket.

It is gone when this process is.
"""

import multiprocessing.util
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from ..errors import PostgresError
from ..servers import folder_files
from ..servers.account import ServerAccount
from ..servers.libpq import open_connection
from ..servers.local import LocalServer
from ..servers.programs import launched
from ..session.statement import LOAD_VECTOR
from ..variables import program_environment

NAME = "pgbouncer"
PORT = "6432"  # a part of the socket's name, and nothing else
_PREPARED = (1, 21)  # the version from which prepared statements work on connections that clients share
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # PATH lacks them for many accounts
_WAIT_SECONDS, _START_SECONDS = 30, 60
_STATEMENTS = 100  # prepared ones that a server connection keeps; a session has fewer than ten
_MOST_CLIENTS = 10_000
_SERVER_CONNECTIONS = 500  # the limit of our server
_OTHER_FILES = 2 * _SERVER_CONNECTIONS + 200  # those, the clients that check them, and pgbouncer's own
# Of a connect_query: pgbouncer writes it into a buffer of 512. With a longer one, nobody can connect.
_MOST_BYTES = 506
_LONG = 30 * 86_400  # s
_CONFIGURATION, _LOG = f"{NAME}.ini", f"{NAME}.log"
_MOST_OF_LOG = 1 << 16  # bytes that are read


@dataclass(frozen=True)
class PoolerProgram:
    """The program and its version, such as "1.24.1"."""

    path: Path
    version: str


def find_program(account: ServerAccount) -> PoolerProgram:
    """Return the pgbouncer of PATH, which the account can run; PostgresError if it is missing, or too old."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    found = shutil.which(NAME, path=folders)
    if found is None:
        raise PostgresError(
            f"{NAME} is not in PATH: install it (Debian, Ubuntu: apt install {NAME}; Fedora: dnf install"
            f" {NAME}; macOS: brew install {NAME}), or leave --pooler out"
        )
    path = Path(found).absolute()
    try:
        done = subprocess.run(
            [path, "--version"], env=program_environment(), capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=_WAIT_SECONDS, check=False, **account.identity(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PostgresError(f"{path} does not run: {getattr(error, 'strerror', None) or error}") from None
    version = re.search(r"pgbouncer\D{0,20}(\d+\.\d+[.\w]*)", done.stdout, re.IGNORECASE)
    if version is None:
        said = " ".join((done.stdout + done.stderr).split())[:200] or f"exit status {done.returncode}"
        raise PostgresError(f"{path} does not say its version: {said}")
    if tuple(int(number) for number in re.findall(r"\d+", version[1])[:2]) < _PREPARED:
        raise PostgresError(
            f"{path} is version {version[1]}, which has no prepared statements in transaction mode: install"
            f" {NAME} {_PREPARED[0]}.{_PREPARED[1]} or newer, or leave --pooler out"
        )
    return PoolerProgram(path, version[1])


def configuration(
    server: Mapping[str, Any], folder: Path, size: int, connection_settings: Mapping[str, str]
) -> str:
    """Return the text of pgbouncer.ini: its socket is in `folder`, and `server` has libpq's parameters.

    The pool has `size` server connections, with these settings in the server's own spelling.
    """
    database = {name: str(server[name]) for name in ("host", "port", "dbname", "user")}
    database |= {"pool_size": str(size), "connect_query": connect_query(connection_settings)}
    settings = {
        "listen_port": PORT,
        "unix_socket_dir": str(folder),
        "unix_socket_mode": "0700",
        "auth_type": "any",  # access to the socket is enough, like for the server itself
        "pool_mode": "transaction",
        "max_prepared_statements": str(_STATEMENTS),
        # Besides those that are measured, one that checks each server connection.
        "max_client_conn": str(most_clients() + _SERVER_CONNECTIONS),
        # What a connection has prepared and was checked for is there until the pooler ends.
        "server_lifetime": str(_LONG),
        "server_idle_timeout": "0",
        "server_login_retry": "1",
        "query_wait_timeout": "0",  # a client that waits for a server connection is slow; it is not refused
        "log_connections": "0",
        "log_disconnections": "0",
        "log_stats": "0",
    }
    quoted = {name: "'" + value.replace("'", "''") + "'" for name, value in database.items()}
    place = " ".join(f"{name}={value}" for name, value in quoted.items())
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[databases]", f"{server['dbname']} = {place}", "[pgbouncer]", *lines, ""])


def connect_query(settings: Mapping[str, str]) -> str:
    """Return what a new server connection runs first; pgbouncer logs its errors and goes on.

    Libraries other than pgvector's are loaded by the first query, and check then what is set here.
    """
    sets = [
        sql.SQL("set_config({},{},false)").format(name, value).as_string() for name, value in settings.items()
    ]
    found = ";".join([LOAD_VECTOR, *([f"SELECT {','.join(sets)}"] if sets else [])])
    if (size := len(found.encode())) > _MOST_BYTES:
        raise PostgresError(
            f"the settings of a connection are a connect_query of {size} bytes, and {NAME} takes"
            f" {_MOST_BYTES}: give fewer by --setting"
        )
    return found


def most_clients() -> int:
    """Return how many clients one pgbouncer takes here: it has a file for each."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_CLIENTS if files == resource.RLIM_INFINITY else files - _OTHER_FILES
    return max(min(_MOST_CLIENTS, most), 1)


class PgBouncer:
    """One pgbouncer in front of a server of our own."""

    def __init__(self, program: PoolerProgram) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._server: LocalServer | None = None  # the pooler was started for it
        self._folder = Path()
        self._text = ""  # of its configuration
        self._finalizer: Any = None

    @property
    def is_started(self) -> bool:
        """Whether it was started and not stopped; it may have ended by itself."""
        return self._process is not None

    @property
    def process(self) -> psutil.Process | None:
        """Its process, None where it does not run."""
        if self._process is None or self._process.poll() is not None:
            return None
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid)
        return None

    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of libpq for its clients."""
        assert self._server is not None
        return self._server.connection_parameters() | {"host": str(self._folder), "port": PORT}

    def use(self, server: LocalServer, size: int, settings: Mapping[str, str]) -> None:
        """Run with this pool: what runs with another one, or has ended, is started again."""
        folder = Path(str(server.connection_parameters()["host"])) / "pooler"
        text = configuration(server.connection_parameters(), folder, size, settings)
        if self.process is None or text != self._text or server is not self._server:
            self.stop()
            self._server, self._text, self._folder = server, text, folder
            self._start()

    def stop(self) -> None:
        """End it, and remove its files. It keeps nothing, so that this may be as quick as it can be."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._remove_folder()
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None

    def _start(self) -> None:
        assert self._server is not None
        self._remove_folder()  # of one that was killed with the process that had started it
        # Before the server's, which removes the folder.
        self._finalizer = multiprocessing.util.Finalize(self, self.stop, exitpriority=20)
        command = [str(self._program.path), str(self._folder / _CONFIGURATION)]
        try:
            self._perform(folder_files.make_folder, self._folder)
            with os.fdopen(self._opened(_CONFIGURATION), "w") as file:
                file.write(self._text)
            with os.fdopen(self._opened(_LOG), "wb") as log:
                # A session of its own: Ctrl-C reaches us, and we decide when it ends.
                self._process = subprocess.Popen(
                    launched(command, self._server.account, self._folder, ending=signal.SIGKILL),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=program_environment(), start_new_session=True,
                )  # fmt: skip
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                open_connection(self.parameters(), 5).close()
                return
            except psycopg.OperationalError as error:
                if self.process is None or time.monotonic() > deadline:
                    reason = self._last_words() or " ".join(str(error).split())
                    raise PostgresError(f"{self._program.path} did not start: {reason}") from None
                time.sleep(0.01)

    def _last_words(self) -> str:
        """Return the first error in its log, which is the cause of others, else the last line."""
        try:
            lines = self._perform(folder_files.end_of, self._folder / _LOG, _MOST_OF_LOG).splitlines()
        except PostgresError:
            return ""
        grave = [line for line in lines if "FATAL" in line or "ERROR" in line] or lines[-1:]
        return str(grave[0]).strip() if grave else ""

    def _opened(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return int(self._perform(folder_files.open_file, self._folder / name, flags))

    def _perform(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns when the account calls it; PostgresError where it cannot."""
        assert self._server is not None
        try:
            return self._server.account.perform(action, *arguments)
        except OSError as error:
            raise PostgresError(f"{NAME} cannot use {self._folder}: {error.strerror}") from None

    def _remove_folder(self) -> None:
        assert self._server is not None
        with suppress(OSError, subprocess.SubprocessError):
            self._server.account.remove(self._folder)
