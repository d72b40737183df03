"""A server that is not ours: its settings by ALTER SYSTEM, its restarts by a command of the user's."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from ann_benchmarks.algorithms.postgres.catalog import SCHEMA
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import numa
from ann_benchmarks.algorithms.postgres.servers.base import Server
from ann_benchmarks.algorithms.postgres.servers.external import ExternalServer
from ann_benchmarks.algorithms.postgres.settings import current_setting
from ann_benchmarks.algorithms.postgres.watching.processes import server_processes
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import warn

from .tier import MIB, Tier, amount

_COMMAND_SECONDS = 600  # the shutdown of a large server may write many GB
_BACK_SECONDS = 60

# What ALTER SYSTEM had set before the first tier (null: nothing), kept in the database so that it is not
# forgotten with a run that is killed.
_FORMER = f"{SCHEMA}.settings_before_tiers"
_SETTINGS = ("shared_buffers", "huge_pages")


class External:
    """Gives somebody else's server the settings of tiers, and its own again in the end."""

    def __init__(self, command: str | None, server: Server | None = None) -> None:
        """Take the shell command that restarts it, and the server: by default that of the environment."""
        if not (command or "").strip():
            raise UserError(
                "a server of your own has to be restarted for each tier: "
                "say how, as in --restart-command 'systemctl restart postgresql'"
            )
        self._command = command or ""
        self._server = server or ExternalServer()

    def check(self, tiers: Sequence[Tier]) -> None:
        """Raise UserError, before anything is changed, where the server cannot be given these tiers."""
        with self._connect() as connection:
            _former_settings(connection)
            pid = _postmaster(connection)
        for tier in tiers:
            _check_place(tier, pid)
        if pid is not None and (advised := numa.advice(pid)):
            warn(advised)

    def data_folder(self) -> Path | None:
        """Return the folder of its data, None if it is on another machine or this user may not know."""
        with self._connect() as connection:
            if _postmaster(connection) is None:
                return None
            try:
                return Path(current_setting(connection, "data_directory"))
            except psycopg.errors.InsufficientPrivilege:
                return None

    def serve(self, tier: Tier) -> int | None:
        """Have the server start anew as the tier says; return its pid, None if it is on another machine."""
        with self._connect() as connection:
            _check_place(tier, _postmaster(connection))
            former = _remember(connection)
            settings = former | {"huge_pages": "off"}
            if tier.shared_buffers is not None:
                settings["shared_buffers"] = f"{tier.shared_buffers // MIB}MB"
            _alter(connection, settings)
        with self._restart() as connection:
            _check_settings(connection, tier)
            return _postmaster(connection)

    def give_back(self) -> None:
        """Put back what ALTER SYSTEM had set before, also before a run that was killed, and start anew."""
        with self._connect(_BY_HAND) as connection:
            if not _is_changed(connection):
                return
            _alter(connection, _remember(connection))
        with self._restart() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {_FORMER}")

    def _connect(self, advice: str = "") -> psycopg.Connection[Any]:
        try:
            return self._server.connect()
        except PostgresError as error:
            raise UserError(f"{error}{advice}") from None

    def _restart(self) -> psycopg.Connection[Any]:
        """Run the command and connect to the server once it has started anew."""
        with self._connect() as connection:
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
                raise UserError(f"`{self._command}` {problem} within {_BACK_SECONDS} s{reason}")
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
                raise UserError(f"`{self._command}` did not end within {_COMMAND_SECONDS} s") from None
            if done.returncode == 0:
                return
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        said = lines[-1].strip() if lines else f"exit status {done.returncode}"
        raise UserError(f"`{self._command}` failed: {said}{_BY_HAND}")


_BY_HAND = (
    f"; if the server does not start, remove {' and '.join(_SETTINGS)} "
    "from postgresql.auto.conf in its data folder"
)


def _started_at(connection: psycopg.Connection[Any]) -> datetime:
    row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    assert row is not None
    return row[0]


def _postmaster(connection: psycopg.Connection[Any]) -> int | None:
    """Pid of the server; None where it does not run on this machine, or not for us to see."""
    try:
        if server_processes(connection) is None:
            return None
        return psutil.Process(connection.info.backend_pid).ppid()
    except psutil.Error:
        return None


def _check_place(tier: Tier, pid: int | None) -> None:
    is_disk_limited = tier.disk is not None and (tier.disk.iops or tier.disk.bandwidth)
    if pid is None and (tier.ram or tier.cpus or is_disk_limited):
        raise UserError(
            f"tier {tier}: the server runs on another machine or in a container, where memory, CPUs and disk "
            f"cannot be held from here: run there, or give only shared_buffers, as in "
            f"{amount(tier.shared_buffers or 2 << 30)}:all"
        )


def _is_changed(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_FORMER]).fetchone()
    assert row is not None
    return bool(row[0])


def _former_settings(connection: psycopg.Connection[Any]) -> dict[str, str | None]:
    """What ALTER SYSTEM has set by now, None where nothing; UserError where this user may not see that."""
    try:
        rows = connection.execute(
            "SELECT name, setting FROM pg_file_settings"
            " WHERE name = ANY(%s) AND sourcefile LIKE '%%/postgresql.auto.conf' ORDER BY seqno",
            [list(_SETTINGS)],
        ).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        raise _no_right(connection) from None
    return dict.fromkeys(_SETTINGS) | dict(rows)


def _remember(connection: psycopg.Connection[Any]) -> dict[str, str | None]:
    """Return what was set before the first tier; written down when that is this one."""
    if not _is_changed(connection):
        former = _former_settings(connection)
        try:
            with connection.transaction():
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                connection.execute(f"CREATE TABLE {_FORMER} (name text PRIMARY KEY, setting text)")
                connection.cursor().executemany(f"INSERT INTO {_FORMER} VALUES (%s, %s)", former.items())
        except psycopg.errors.InsufficientPrivilege:
            raise _no_right(connection) from None
    return dict(connection.execute(f"SELECT name, setting FROM {_FORMER}").fetchall())


def _alter(connection: psycopg.Connection[Any], settings: dict[str, str | None]) -> None:
    for name, value in settings.items():
        statement = sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name))
        if value is not None:
            statement = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value)
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            raise _no_right(connection) from None
        except psycopg.Error as error:
            said = " ".join((error.diag.message_primary or str(error)).split())
            raise UserError(f"ALTER SYSTEM SET {name} was refused: {said}") from None


def _no_right(connection: psycopg.Connection[Any]) -> UserError:
    return UserError(
        f"user '{connection.info.user}' may not change the server's settings (ALTER SYSTEM): "
        "name a superuser in ANN_BENCHMARKS_PG_USER, or measure without --tiers"
    )


def _check_settings(connection: psycopg.Connection[Any], tier: Tier) -> None:
    wrong = connection.execute(
        "SELECT name, current_setting(name), source FROM pg_settings"
        " WHERE name = 'huge_pages' AND setting <> 'off'"
        " OR name = 'shared_buffers' AND pg_size_bytes(current_setting(name)) <> %s",
        [tier.shared_buffers],
    ).fetchone()
    if wrong is not None:
        name, value, source = wrong
        wanted = amount(tier.shared_buffers) if name == "shared_buffers" else "off"
        raise UserError(
            f"after the restart, {name} is {value} instead of {wanted}: its source is '{source}', "
            "which wins over ALTER SYSTEM; take it away there"
        )
