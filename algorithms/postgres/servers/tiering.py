"""Servers of tiers: what has to be set and restarted for one to have the memory of a smaller machine.

The framework simulates the smaller machine (tiers/sweep.py is its side). A tier is whatever has
`shared_buffers`, `ram`, `cpus` and `limited_disk`, sizes in bytes, None without a limit.
"""

import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from ..catalog import SCHEMA, exists
from ..environment import PREFIX, given_settings, server_kind
from ..errors import PostgresError, refusal
from ..settings import current_setting, megabytes
from . import Server, current_server, machine, replica_server, shard_server
from .external import SHARD_HOSTS, ExternalServer
from .machine import server_processes
from .programs import numa_advice

_BUILD_BUFFERS = 8 << 30  # at most, of a server that builds: the scan of a table uses hardly any of them
_LEAST_BUILD_BUFFERS = 128 << 20
_COMMAND_SECONDS = 600  # the shutdown of a large server may write many GB
_BACK_SECONDS = 60
ALTERED = ("shared_buffers", "huge_pages")  # by ALTER SYSTEM, of somebody else's server
# A table keeps what these were before, so that it is not forgotten with a run that is killed: null where
# ALTER SYSTEM had set nothing.
_FORMER = f"{SCHEMA}.settings_before_tiers"
_BY_HAND = (
    f"; if the server does not start, remove {' and '.join(ALTERED)} "
    "from postgresql.auto.conf in its data folder"
)
Connection = psycopg.Connection[Any]


class LocalTieredServer:
    """A server that workers, or containers, start with the settings of the environment."""

    is_ours = True

    def check(self, tiers: Sequence[Any]) -> str | None:
        """Refuse tiers whose shared_buffers the user sets; return what to do on several NUMA nodes."""
        _given_settings(*tiers)
        return numa_advice()

    def data_folder(self) -> Path | None:
        """Return the folder that holds all it keeps."""
        return current_server().data_folder

    def other_folders(self, kind: str, count: int) -> Sequence[Path]:
        """Return the folders of the servers beside it, which are ours; PostgresError where they are not."""
        found: Callable[[int], Server] = shard_server if kind == "shards" else replica_server
        folders = [folder for number in range(count) if (folder := found(number + 1).data_folder)]
        if len(folders) < count:
            raise PostgresError(
                f"tiers simulate servers of our own: unset {SHARD_HOSTS}, or leave --tiers out"
            )
        return folders

    def environment(self, tier: Any, groups: Sequence[Path] = ()) -> Mapping[str, str]:
        """Return the variables of a process whose server is to have what a tier has.

        None: one that leaves the memory to the build and to the system's cache. The user's own settings win,
        but for what the tier is about.
        """
        memory = {f"{PREFIX}RAM": megabytes(tier.ram)} if tier and tier.ram else {}
        if not self.is_ours:
            return memory  # its settings and groups come about otherwise
        given = _given_settings(tier) if tier else given_settings()
        settings: dict[str, str] = {}
        if tier is None:
            buffers = max(min(_BUILD_BUFFERS, machine.memory_bytes() // 16), _LEAST_BUILD_BUFFERS)
            settings["shared_buffers"] = megabytes(buffers)
        elif tier.shared_buffers is not None:
            settings["shared_buffers"] = megabytes(tier.shared_buffers)
        words = (f"{name}={value}" for name, value in {**settings, **given}.items())
        groups_text = ":".join(map(str, groups))
        return {f"{PREFIX}SETTINGS": shlex.join(words), f"{PREFIX}GROUPS": groups_text, **memory}

    def serve(self, tier: Any) -> int | None:
        """Nothing: a worker starts it."""
        return None

    def give_back(self) -> None:
        """Nothing: it ends with its worker."""


class ExternalTieredServer(LocalTieredServer):
    """A server of the user's: its settings by ALTER SYSTEM, its restarts by a command of the user's."""

    is_ours = False

    def __init__(self, command: str | None) -> None:
        """Take the shell command that restarts the server that the environment names."""
        self._command = (command or "").strip()
        self._server = ExternalServer()

    def check(self, tiers: Sequence[Any]) -> str | None:
        """Refuse tiers that the server cannot be given; return what to do where it favours a NUMA node."""
        if not self._command:
            raise PostgresError(
                "a server of your own has to be restarted for each tier: "
                "say how, as in --restart-command 'systemctl restart postgresql'"
            )
        _given_settings(*tiers)
        with self._server.connect() as connection:
            former_settings(connection)
            pid = _postmaster(connection)
        for tier in tiers:
            _check_place(tier, pid)
        return None if pid is None else numa_advice(pid)

    def data_folder(self) -> Path | None:
        """Return the folder of its data, None if it is on another machine or this user may not know."""
        with self._server.connect() as connection:
            if _postmaster(connection) is None:
                return None
            try:
                return Path(current_setting(connection, "data_directory"))
            except psycopg.errors.InsufficientPrivilege:
                return None

    def other_folders(self, kind: str, count: int) -> Sequence[Path]:
        """Return none; PostgresError where there are to be others, which no command could restart."""
        if count:
            raise PostgresError(
                f"tiers of {kind} are of servers of our own: unset the variables that name yours, or leave"
                f" --tiers or --{kind} out"
            )
        return ()

    def serve(self, tier: Any) -> int | None:
        """Restart the server as the tier says; return its pid, None if it is on another machine."""
        with self._server.connect() as connection:
            _check_place(tier, _postmaster(connection))
            settings = remembered_settings(connection) | {"huge_pages": "off"}
            if tier.shared_buffers is not None:
                settings["shared_buffers"] = megabytes(tier.shared_buffers)
            alter_settings(connection, settings)
        with self._restart() as connection:
            _check_restarted(connection, tier.shared_buffers)
            return _postmaster(connection)

    def give_back(self) -> None:
        """Put back what ALTER SYSTEM had set before, also before a run that was killed, and restart."""
        try:
            connection = self._server.connect()
        except PostgresError as error:
            raise PostgresError(f"{error}{_BY_HAND}") from None
        with connection:
            if not exists(connection, _FORMER):
                return
            alter_settings(connection, remembered_settings(connection))
        with self._restart() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {_FORMER}")

    def _restart(self) -> Connection:
        """Run the command and connect to the server once it has been restarted."""
        with self._server.connect() as connection:
            before = _started_at(connection)
        self._run_command()
        deadline = time.monotonic() + _BACK_SECONDS
        while True:
            try:
                connection = self._server.connect()
                if _started_at(connection) != before:
                    return connection
                connection.close()
                problem, reason = "did not restart the server", ""
            except (PostgresError, psycopg.OperationalError) as error:
                problem = "did not bring the server back"
                reason = f": {' '.join(str(error).split())}{_BY_HAND}"
            if time.monotonic() > deadline:
                raise PostgresError(f"`{self._command}` {problem} within {_BACK_SECONDS} s{reason}")
            time.sleep(0.1)

    def _run_command(self) -> None:
        # Into a file: a server that the command leaves behind would keep a pipe open. In a session of its
        # own: Ctrl-C is for us, and does not reach that server.
        with tempfile.TemporaryFile() as output:
            try:
                done = subprocess.run(
                    self._command, shell=True, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, start_new_session=True, timeout=_COMMAND_SECONDS, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise PostgresError(f"`{self._command}` did not end within {_COMMAND_SECONDS} s") from None
            if done.returncode == 0:
                return
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        said = lines[-1].strip() if lines else f"exit status {done.returncode}"
        raise PostgresError(f"`{self._command}` failed: {said}{_BY_HAND}")


def tiered_server(restart_command: str | None) -> LocalTieredServer:
    """Return the server that the environment names, to be given what tiers have."""
    if server_kind() == "external":
        return ExternalTieredServer(restart_command)
    if restart_command is not None:
        raise PostgresError("--restart-command is for a server that is not ours: leave it out")
    return LocalTieredServer()


def _given_settings(*tiers: Any) -> Mapping[str, str]:
    """Return the user's settings; PostgresError where a tier sets one of them."""
    given = given_settings()
    if "shared_buffers" in given and any(tier.shared_buffers is not None for tier in tiers):
        raise PostgresError(f"tiers set shared_buffers: take it out of {PREFIX}SETTINGS")
    return given


def _started_at(connection: Connection) -> Any:
    return connection.execute("SELECT pg_postmaster_start_time()").fetchone()


def _postmaster(connection: Connection) -> int | None:
    """Pid of the server; None where it does not run on this machine, or not for us to see."""
    try:
        found = server_processes(connection)
    except psutil.Error:
        return None
    return None if found is None else found.postmaster


def _check_place(tier: Any, pid: int | None) -> None:
    if pid is None and (tier.ram or tier.cpus or tier.limited_disk):
        raise PostgresError(
            f"tier {tier}: the server runs on another machine or in a container, where memory, CPUs and disk "
            f"cannot be held from here: run there, or give only shared_buffers, as in "
            f"{megabytes(tier.shared_buffers or 2 << 30)}:all"
        )


def former_settings(connection: Connection) -> dict[str, str | None]:
    """Return what ALTER SYSTEM has set by now, None where nothing."""
    with _requiring_rights(connection):
        rows = connection.execute(
            "SELECT name, setting FROM pg_file_settings"
            " WHERE name = ANY(%s) AND sourcefile LIKE '%%/postgresql.auto.conf' ORDER BY seqno",
            [list(ALTERED)],
        ).fetchall()
    return dict.fromkeys(ALTERED) | dict(rows)


def remembered_settings(connection: Connection) -> dict[str, str | None]:
    """Return what was set before the first tier; written down when that is this one."""
    if not exists(connection, _FORMER):
        settings = former_settings(connection)
        with _requiring_rights(connection), connection.transaction():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(f"CREATE TABLE {_FORMER} (name text PRIMARY KEY, setting text)")
            connection.cursor().executemany(f"INSERT INTO {_FORMER} VALUES (%s, %s)", settings.items())
    return dict(connection.execute(f"SELECT name, setting FROM {_FORMER}").fetchall())


def alter_settings(connection: Connection, settings: Mapping[str, str | None]) -> None:
    """Set them from the next start on; None: as postgresql.conf has them."""
    for name, value in settings.items():
        statement = sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name))
        if value is not None:
            statement = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value)
        try:
            with _requiring_rights(connection):
                connection.execute(statement)
        except psycopg.Error as error:
            raise refusal(f"ALTER SYSTEM SET {name} was refused", error) from None


@contextmanager
def _requiring_rights(connection: Connection) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege:
        raise PostgresError(
            f"user '{connection.info.user}' may not change the server's settings (ALTER SYSTEM): "
            "name a superuser in ANN_BENCHMARKS_PG_USER, or measure without --tiers"
        ) from None


def _check_restarted(connection: Connection, shared_buffers: int | None) -> None:
    """Refuse a server that has been restarted with other settings; `shared_buffers` in bytes, None: any."""
    wrong = connection.execute(
        "SELECT name, current_setting(name), source FROM pg_settings"
        " WHERE name = 'huge_pages' AND setting <> 'off'"
        " OR name = 'shared_buffers' AND pg_size_bytes(current_setting(name)) <> %s",
        [shared_buffers],
    ).fetchone()
    if wrong is not None:
        name, value, source = wrong
        target = "off" if name == "huge_pages" else megabytes(shared_buffers or 0)
        raise PostgresError(
            f"after the restart, {name} is {value} instead of {target}: its source is '{source}', "
            "which wins over ALTER SYSTEM; take it away there"
        )
