"""A server of our own: one running cluster on a Unix socket, gone when this process is."""

import multiprocessing.util
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import psycopg

from ..environment import given_settings
from ..errors import PostgresError
from ..settings import fixed_settings, server_profile, standby_profile
from . import machine
from .account import ServerAccount, server_account
from .base import NOTICE_SECONDS, Server, library_list
from .cluster import ClusterFolder, end_postmaster
from .libpq import open_connection, own_parameters
from .programs import ServerPrograms

DATABASE = "ann"
SUPERUSER = "ann"
_PORT = "5432"  # a part of the socket's name, and nothing else
_START_SECONDS = 60
_ENDING_SECONDS = 15
_STILL_ENDING = "pre-existing shared memory block"  # in PostgreSQL's own words, which are English in locale C
_FIRST_LIBRARIES = ("citus",)  # they refuse to load after others
_RECOVERING = ("starting up", "not yet accepting connections", "in recovery mode")


class LocalServer(Server):
    """One cluster of our own, run by the programs in `binaries`."""

    def __init__(self, binaries: Path, folder: Path | None, number: int = 0) -> None:
        """Take the programs' folder and the one to keep everything in (None: the default).

        `number` is that of a shard or a replica, 0 of what has others beside it, or none.
        """
        self._account = server_account()
        self._cluster = ClusterFolder(folder, self._account)
        self._programs = ServerPrograms(binaries, self._account, self._cluster.root, number)
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None
        self._required_libraries: list[str] = []
        self._loaded_libraries: list[str] = []
        self._settings: Mapping[str, str] = {}
        self._given: Mapping[str, str] = {}  # when it was started
        self._said: list[list[str]] = []  # settings that restart it, as printed before
        self._serves_standbys = False
        self._free_disk: int | None = None  # bytes, before the first start: later ones have the same settings
        self.chosen: Mapping[str, str] = {}  # settings that it was started with, but for its place

    @property
    def data_folder(self) -> Path:
        return self._cluster.root

    @property
    def account(self) -> ServerAccount:
        """The account that runs it."""
        return self._account

    @property
    def programs(self) -> Path:
        """The folder of its programs."""
        return self._programs.folder

    def connection_parameters(self) -> dict[str, Any]:
        return own_parameters(str(self._cluster.socket_folder), _PORT, SUPERUSER, DATABASE)

    def last_words(self) -> str:
        """The last error in the server's log, on one line, with the log's path."""
        return self._cluster.last_words()

    def start(self, settings: Mapping[str, str]) -> None:
        """Start it; a server that a killed run left behind is stopped first."""
        if self.is_running:
            return
        self.stop()  # what is left of one that has ended
        self._settings = settings
        self._cluster.take()
        # Runs at the end of this process, also of a multiprocessing worker, where atexit does not.
        self._finalizer = multiprocessing.util.Finalize(self, self.stop, exitpriority=10)
        try:
            self._programs.make_reachable()
            self._cluster.choose_version(self._programs.version())
            self._cluster.stop_leftover()
            if not self._has_data():
                self._initialise()
            self._run(settings)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Shut it down: fast, then harder."""
        process, self._process = self._process, None
        if process is not None:
            end_postmaster(psutil.Process(process.pid) if process.poll() is None else None)
            process.wait()
        self._cluster.give_back()
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None

    def adapt(self) -> None:
        """Start it again where settings are given now that it does not have, and that no session can set."""
        given = given_settings()
        changed = [name for name in {**given, **self._given} if given.get(name) != self._given.get(name)]
        if self._process is None:
            self.start(self._settings)
        elif changed:
            with self.connect() as connection:
                names = fixed_settings(connection, changed)
            if names:
                began = time.perf_counter()
                self.restart(self._settings)
                if names not in self._said:
                    self._said.append(names)
                    print(
                        f"each change of {', '.join(names)} starts the server again:"
                        f" {time.perf_counter() - began:.1f} s this time, and its memory is empty",
                        flush=True,
                    )

    def revive(self) -> None:
        """Start it again if it has ended, and wait until it has recovered."""
        self.wait_for_recovery()
        self.start(self._settings)

    def wait_for_recovery(self) -> None:
        """Wait, after something went wrong, until it answers or has ended."""
        time.sleep(NOTICE_SECONDS)
        try:
            if self.is_running:
                self._wait_until_ready()
        except PostgresError:
            if self.is_running:
                raise

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process is not None and not self.is_running

    def preload(self, library: str) -> None:
        """Start it again with the library, unless it has that already."""
        if library not in self._loaded_libraries:
            self._required_libraries.append(library)
            self.restart(self._settings)

    def serve_standbys(self) -> None:
        """Write the log that standbys need, from now on; a server that runs without is started again."""
        if not self._serves_standbys:
            self._serves_standbys = True
            if self._process is not None:
                self.restart(self._settings)

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def _has_data(self) -> bool:
        return os.path.lexists(self._cluster.data)

    def _initialise(self) -> None:
        partial = self._cluster.partial_data()
        self._programs.run(
            "initdb", "--pgdata", str(partial), "--username", SUPERUSER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C",
        )  # fmt: skip
        self._cluster.keep(partial)

    def _run(self, settings: Mapping[str, str]) -> None:
        arguments = self._arguments(settings)
        patience = time.monotonic() + _ENDING_SECONDS
        while True:
            with self._cluster.open_log() as log:
                self._process = self._programs.start("postgres", *arguments, stdout=log)
            try:
                self._wait_until_ready()
                break
            except PostgresError:
                # After a crash, backends that are still ending hold its shared memory for a moment.
                if _STILL_ENDING not in self.last_words() or time.monotonic() > patience:
                    raise
                time.sleep(0.2)
        self._remove_leftovers()

    def _remove_leftovers(self) -> None:
        with self.connect() as connection:
            self._cluster.remove_orphans(connection)

    def _arguments(self, settings: Mapping[str, str]) -> list[str]:
        """Return the server's arguments: our profile, over it the user's settings, over these `settings`."""
        if self._free_disk is None:
            self._free_disk = machine.free_disk_bytes(self._cluster.root)
        profile = server_profile(
            machine.memory_bytes(),
            machine.cores(),
            self._free_disk,
            machine.posix_shared_memory_bytes(),
        )
        fixed = {
            "listen_addresses": "",
            "port": _PORT,
            "unix_socket_directories": str(self._cluster.make_socket_folder()),
            "unix_socket_permissions": "0700",
            "cluster_name": "",
        }
        if self._serves_standbys:
            profile |= standby_profile()
        self._given = given_settings()
        for name, value in self._given.items():
            if fixed.get(name, value) != value:
                raise PostgresError(
                    f"{name} = {value} is not in force: this server runs with '{fixed[name]}'; leave it out"
                )
        chosen = {**profile, **self._given, **settings}
        given = chosen.get("shared_preload_libraries", "")
        self._loaded_libraries = library_list(given)
        missing = [name for name in self._required_libraries if name not in self._loaded_libraries]
        if missing:
            first = [name for name in missing if name in _FIRST_LIBRARIES]
            others = [name for name in missing if name not in _FIRST_LIBRARIES]
            chosen["shared_preload_libraries"] = ",".join(filter(None, [*first, given, *others]))
            self._loaded_libraries += missing
        self.chosen = chosen
        options = [f"--{name}={value}" for name, value in {**chosen, **fixed}.items()]
        return ["-D", str(self._cluster.data), *options]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        maintenance = self.connection_parameters() | {"dbname": "postgres"}
        while True:
            try:
                with open_connection(maintenance, 5) as connection:
                    self._make_database(connection)
                return
            except psycopg.OperationalError as error:
                assert self._process is not None
                if self._process.poll() is not None:
                    raise PostgresError(f"PostgreSQL did not start: {self.last_words()}") from None
                if any(words in str(error) for words in _RECOVERING):
                    deadline = time.monotonic() + _START_SECONDS  # of a crash, which may take long
                if time.monotonic() > deadline:
                    reason = " ".join(str(error).split())
                    raise PostgresError(
                        f"PostgreSQL did not answer within {_START_SECONDS} s: {reason} "
                        f"(log: {self._cluster.log})"
                    ) from None
                time.sleep(0.02)

    def _make_database(self, connection: psycopg.Connection[Any]) -> None:
        exists = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE])
        if exists.rowcount == 0:
            connection.execute(f"CREATE DATABASE {DATABASE}")
