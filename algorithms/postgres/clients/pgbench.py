"""pgbench as the clients: a second opinion, by PostgreSQL's own load generator, on the same queries.

pgbench cannot send a vector: it sends the number of a query, which it draws itself, and the server finds the
vector in a table. Nothing else differs: index, settings, a prepared statement, a connection a client.
"""

import math
import os
import re
import resource
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from psycopg.conninfo import make_conninfo

from .. import machine
from ..errors import PostgresError
from ..servers import folder_files
from ..servers.account import ServerAccount
from ..servers.libpq import client_environment, connect, settings_elsewhere
from ..session import SessionFacts
from ..settings import current_setting
from ..statement import QueryStatement
from ..watching import CLIENT_APPLICATION
from .pgbench_program import PgbenchProgram, find_pgbench
from .pgbench_queries import QueryTable
from .work import NO_SAMPLE, ClientRun

__all__ = ["PgbenchClients", "PgbenchProgram", "find_pgbench"]

LEAST_SKEW, MOST_SKEW = 1.001, 1000.0  # of pgbench's random_zipfian
_FOLDER = "ann-pgbench-"  # how the names of folders for its log begin
_LOG = "log"  # how the names of its parts begin
_TPS = re.compile(r"^tps = ([\d.]+) \((?:without|excluding)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([1-9]\d*)", re.MULTILINE)
# The columns of its log of all queries.
_CLIENT, _NUMBER, _TOOK, _SCRIPT, _SECONDS, _MICROSECONDS, _LATE = range(7)


class PgbenchClients:
    """Clients of pgbench, which connects them anew for each run.

    `queries_per_second` is what pgbench reports of the last run, without the time to connect.
    """

    def __init__(
        self,
        statement: QueryStatement,
        queries: Any,
        clients: int,
        program: PgbenchProgram,
        skew: float | None = None,
    ) -> None:
        """Put the queries, (count, dimension), into a table, and make sure that the index is used.

        All queries are drawn alike, or, with `skew`, query i in proportion to 1 / (i + 1) ** skew: the first
        one is the most popular.
        """
        if skew is not None and not LEAST_SKEW <= skew <= MOST_SKEW:
            raise PostgresError(
                f"pgbench has Zipf distributions of {LEAST_SKEW:g} to {MOST_SKEW:g}, not of {skew:g}: "
                "give one of these, or leave --driver pgbench out"
            )
        self.members: list[SessionFacts] = []  # no client is there but in a run
        self.queries_per_second = math.nan
        self.version = program.version()
        self._program, self._clients, self._parameters = program, clients, statement.parameters
        self._draw = _drawn(len(queries), skew)
        with connect(statement.parameters) as connection:
            path = {"search_path": current_setting(connection, "search_path")}
            settings = {**settings_elsewhere(connection), **path, **statement.settings}
        self._options = _options(statement.parameters.get("options", ""), settings)
        self._length: list[str] = []  # of a run, as arguments of pgbench
        self._runs = 0
        self._client_runs: list[ClientRun] = []
        self._queries = QueryTable(statement, queries, self._options)

    def facts(self) -> dict[str, str]:
        """Return what is stored of it with the run."""
        return {"pgbench_version": self.version}

    def prepare(
        self,
        orders: Sequence[np.ndarray[Any, Any]],
        seconds: float | None = None,
        keeps_ids: bool = True,
    ) -> None:
        """Each client is to send as many queries as the first order has, or for `seconds`, in whole seconds.

        pgbench draws which queries these are, and does not keep what they find.
        """
        self._length = ["-t", str(max(len(orders[0]), 1))] if seconds is None else ["-T", _whole(seconds)]

    def prepare_arrivals(
        self,
        due: np.ndarray[Any, Any],
        numbers: np.ndarray[Any, Any],
        patience: float,
        keeps_ids: bool = True,
    ) -> None:
        """Queries are to come as often as in `due`, at times that pgbench draws, in a Poisson process.

        It ends after the span of `due`, in whole seconds, and has no patience: what no client has taken by
        then is not sent.
        """
        span = float(np.max(due))
        self._length = ["-T", _whole(span), "--rate", f"{len(due) / span:.6f}"]

    def run(self) -> None:
        """Run pgbench, and wait for its end; PostgresError gives the reason where it fails."""
        try:
            with _log_folder(self._program.account) as folder:
                self._run(folder)
        except BaseException:
            self.close()
            raise

    def answers(self) -> list[ClientRun]:
        """Return what each client measured in the last run, without numbers and ids.

        Times are in s from when the first query was sent or due. The CPU is pgbench's, connecting included,
        in equal parts: its clients share threads.
        """
        runs, self._client_runs = self._client_runs, []
        return runs

    def close(self) -> None:
        """Drop the table of the queries."""
        self._queries.drop()

    def _run(self, folder: Path) -> None:
        self._runs += 1
        threads = min(self._clients, machine.cores())
        command = [
            *("--no-vacuum", "--protocol", "prepared", "--file", "-@1"),
            *("--client", str(self._clients), "--jobs", str(threads), *self._length),
            *("--random-seed", str(self._runs), "--log", "--log-prefix", str(folder / _LOG)),
            self._conninfo(),
        ]
        before = _cpu_seconds_of_children()
        with tempfile.TemporaryFile("w+") as script, tempfile.TemporaryFile("w+") as printed:
            script.write(f"\\set number {self._draw}\n{self._queries.sql(':number')};\n")
            script.seek(0)
            self._program.run(command, self._environment(), script, printed)
            cpu_seconds = _cpu_seconds_of_children() - before
            printed.seek(0)
            self.queries_per_second = _queries_per_second(printed.read())
        rows = _read_log(folder, self._program.account, "--rate" in self._length)
        self._client_runs = _runs_of(rows, self._clients, cpu_seconds)

    def _conninfo(self) -> str:
        """What pgbench takes for the name of a database."""
        said = {name: value for name, value in self._parameters.items() if name != "password"}
        return make_conninfo("", **said | {"options": self._options, "application_name": CLIENT_APPLICATION})

    def _environment(self) -> dict[str, str]:
        environment = client_environment(self._parameters)
        if "password" in self._parameters:  # everybody may read the arguments of a process
            environment["PGPASSWORD"] = str(self._parameters["password"])
        return environment


def _drawn(queries: int, skew: float | None) -> str:
    """How pgbench draws the number of a query."""
    return f"random(0, {queries - 1})" if skew is None else f"random_zipfian(1, {queries}, {skew!r}) - 1"


def _options(given: str, settings: Mapping[str, str]) -> str:
    """Add a session's settings to libpq's `options`, in which a backslash keeps a space."""
    escaped = {name: re.sub(r"([\\\s])", r"\\\1", value) for name, value in settings.items()}
    return " ".join([given, *(f"-c {name}={value}" for name, value in escaped.items())]).strip()


def _queries_per_second(printed: str) -> float:
    """Read what pgbench prints at its end."""
    if failed := _FAILED.search(printed):
        raise PostgresError(f"pgbench: {failed[1]} queries failed: the server's log gives the reason")
    throughput = _TPS.search(printed)
    if throughput is None:
        raise PostgresError(f"pgbench does not report its throughput: {' '.join(printed.split())}")
    return float(throughput[1])


@contextmanager
def _log_folder(account: ServerAccount) -> Iterator[Path]:
    """Make a folder for the log of all queries, which is large; those of killed processes are removed."""
    account.perform(folder_files.remove_left, _FOLDER)
    while True:
        folder = Path(account.perform(folder_files.make_temporary, _FOLDER))
        with suppress(FileNotFoundError, BlockingIOError):  # another process took it for one that is left
            lock = account.perform(folder_files.lock_folder, folder)
            break
    try:
        yield folder
    finally:
        account.perform(folder_files.remove, folder)
        os.close(lock)


def _whole(seconds: float) -> str:
    return str(max(1, math.ceil(seconds)))


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read_log(folder: Path, account: ServerAccount, has_rate: bool) -> np.ndarray[Any, Any]:
    """Read the log, (queries, 6 or 7), whole numbers; each of pgbench's threads has written a part.

    The columns: client, which query of the client, microseconds that it took, script, when it was answered
    (seconds, microseconds; wall clock), and, at a rate, by how many microseconds it was sent too late. At a
    rate, what it took counts from when it was due.
    """
    parts = []
    for name in account.perform(folder_files.files_in, folder):
        if name.startswith(f"{_LOG}."):
            with os.fdopen(account.perform(folder_files.open_file, folder / name, os.O_RDONLY), "rb") as file:
                parts.append(np.fromfile(file, np.int64, sep=" "))
    return np.concatenate([np.empty(0, np.int64), *parts]).reshape(-1, 7 if has_rate else 6)


def _runs_of(log: np.ndarray[Any, Any], clients: int, cpu_seconds: float) -> list[ClientRun]:
    """Return what each client has measured, in s from when the first query of all was sent or due.

    Which queries they were is not in the log: the numbers are -1. `cpu_seconds`, of all, is shared out.
    """
    answered = log[:, _SECONDS] * 1_000_000 + log[:, _MICROSECONDS]
    began = answered - log[:, _TOOK]
    first = began.min() if len(log) else 0
    has_rate = log.shape[1] > _LATE
    runs = []
    for client in range(clients):
        own = np.flatnonzero(log[:, _CLIENT] == client)
        own = own[np.argsort(log[own, _NUMBER])]
        due = (began[own] - first) / 1e6
        runs.append(
            ClientRun(
                np.full(len(own), -1),
                due if has_rate else None,
                due + log[own, _LATE] / 1e6 if has_rate else due,
                (answered[own] - first) / 1e6,
                None,
                *NO_SAMPLE,
                cpu_seconds / clients,
            )
        )
    return runs
