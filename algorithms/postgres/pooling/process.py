"""A pgbouncer that runs: its folder is beside its server's socket, and it is gone when this process is."""

import multiprocessing.util
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from ..errors import PostgresError
from ..servers import Server, folder_files
from ..servers.libpq import open_connection
from ..servers.programs import launched
from ..variables import program_environment
from .configuration import PORT, PoolSettings, configuration
from .program import NAME, PoolerProgram

_START_SECONDS = 60
_CONFIGURATION, _LOG = f"{NAME}.ini", f"{NAME}.log"
_MOST_OF_LOG = 1 << 16  # bytes that are read


class PgBouncer:
    """One pgbouncer in front of a server of our own."""

    def __init__(self, program: PoolerProgram) -> None:
        """Take the program; nothing is started yet."""
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._server: Server | None = None  # which it was started for
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

    def use(self, server: Server, pool: PoolSettings) -> None:
        """Run with this pool: what runs with another one, or has ended, is started again."""
        text = configuration(server.connection_parameters(), _folder_beside(server), pool)
        if self.process is None or text != self._text or server is not self._server:
            self.stop()
            self._start(server, text)

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

    def _start(self, server: Server, text: str) -> None:
        self._server, self._text = server, text
        self._folder = _folder_beside(server)
        self._remove_folder()  # of one that was killed with the process that had started it
        # Before the server's, which removes the folder.
        self._finalizer = multiprocessing.util.Finalize(self, self.stop, exitpriority=20)
        command = [str(self._program.path), str(self._folder / _CONFIGURATION)]
        account = server.account
        try:
            self._perform(folder_files.make_folder, self._folder)
            with os.fdopen(self._opened(_CONFIGURATION), "w") as file:
                file.write(text)
            with os.fdopen(self._opened(_LOG), "wb") as log:
                # A session of its own: Ctrl-C reaches us, and we decide when it ends.
                self._process = subprocess.Popen(
                    launched(command, account, self._folder, signal.SIGKILL),
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


def _folder_beside(server: Server) -> Path:
    """Return the folder that a pooler of the server has, in that of the server's socket."""
    return Path(str(server.connection_parameters()["host"])) / "pooler"
