"""What every kind of server offers."""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from ..environment import OTHER_FOLDER, PREFIX
from ..errors import NotInstalledError, PostgresError, lacks_resources, message_of
from ..settings import size_text
from . import machine
from .libpq import connect

NOTICE_SECONDS = 0.3  # in which a server sees that a backend has crashed, and ends all others, or itself
REVIVE_SECONDS = 60  # for the recovery of an external server


class Server(ABC):
    """A PostgreSQL that can be connected to; ours to stop and restart, or somebody else's."""

    @abstractmethod
    def start(self, settings: Mapping[str, str]) -> None:
        """Start it with these settings over its profile; nothing happens if it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it if it is ours and runs."""

    @abstractmethod
    def adapt(self) -> None:
        """Have the settings that are given now, which may be another contender's."""

    @abstractmethod
    def connection_parameters(self) -> dict[str, Any]:
        """Keyword arguments of libpq."""

    @property
    @abstractmethod
    def data_folder(self) -> Path | None:
        """The folder that holds all it keeps, None where that is not ours to know."""

    @property
    def is_ours(self) -> bool:
        """Whether we start and stop it, with settings of our choice."""
        return self.data_folder is not None

    def last_words(self) -> str:
        """The last error in the server's log, where that is ours to read."""
        return ""

    @contextmanager
    def explaining(self, doing: str, kept: str = "nothing of it was kept") -> Iterator[None]:
        """Raise PostgresError, on one line, where the server gives up: why, and what remains of the work."""
        try:
            yield
        except psycopg.DatabaseError as error:
            # A lost connection is not always an OperationalError, but never has a state.
            is_lost = type(error) is psycopg.DatabaseError and error.sqlstate is None
            if not is_lost and not isinstance(error, psycopg.OperationalError):
                raise
            if lacks_resources(error):
                reason = f"ran out of room while {doing}, {kept}: {message_of(error)}"
            else:
                reason = f"broke off while {doing}: {self.last_words() or str(error).splitlines()[0]}"
            raise PostgresError(f"the server {reason}") from None

    def check_disk(self, needed: int, what: str) -> None:
        """Raise PostgresError for what does not fit the disk of a server of ours; `needed` is in bytes."""
        if self.data_folder is None:
            return
        free = machine.free_disk_bytes(self.data_folder)
        if needed > free:
            left = f"the disk of {self.data_folder} has {size_text(free)} left"
            raise PostgresError(
                f"{what} need {size_text(needed)}, {left}: free some, "
                f"or name {OTHER_FOLDER}, on a larger disk"
            )

    def preload(self, library: str) -> None:
        """Make sure that the server loads a library when it starts, which some extensions demand.

        Raises NotInstalledError where that is not ours to change; a server that hides the setting may do so.
        """
        with self.connect() as connection:
            row = connection.execute(
                "SELECT setting FROM pg_settings WHERE name = 'shared_preload_libraries'"
            ).fetchone()
        if row is not None and library not in library_list(row[0]):
            raise NotInstalledError(
                f"the server has to load '{library}' when it starts: "
                f"add it to shared_preload_libraries (now '{row[0]}') and restart it"
            )

    def serve_standbys(self) -> None:
        """Write the log that standbys need, from now on; PostgresError where that is not ours to change."""
        raise PostgresError(
            f"standbys are made of a server of our own: unset {PREFIX}HOST and the like, or leave --replicas"
            " out"
        )

    def restart(self, settings: Mapping[str, str]) -> None:
        """Start it again with other settings."""
        self.stop()
        self.start(settings)

    def revive(self) -> None:
        """Make sure that it answers, after something went wrong: it may be recovering from a crash."""
        time.sleep(NOTICE_SECONDS)
        deadline = time.monotonic() + REVIVE_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except PostgresError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def start_mark(self) -> Any:
        """Return what changes whenever the server loses the content of its memory: by a start, or a crash."""
        with self.connect() as connection:
            return connection.execute(
                "SELECT extract(epoch FROM pg_postmaster_start_time())::float8,"
                " extract(epoch FROM stats_reset)::float8 FROM pg_stat_bgwriter"
            ).fetchone()

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode."""
        return connect(self.connection_parameters())

    def versions(self) -> dict[str, str]:
        """Server and installed extensions, name to version."""
        with self.connect() as connection:
            rows = connection.execute(
                "SELECT 'postgres', current_setting('server_version')"
                " UNION ALL SELECT extname, extversion FROM pg_extension WHERE extname <> 'plpgsql'"
            ).fetchall()
        return dict(rows)


def library_list(text: str) -> list[str]:
    """Split a value of shared_preload_libraries into names without their folders."""
    return [name.rpartition("/")[2] for name in re.split(r"[\s,'\"]+", text) if name]
