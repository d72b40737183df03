"""Somebody else's server, named by the environment: connected to, never stopped."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from ..environment import connection_parameters, starts_service
from ..errors import PostgresError, refusal
from .base import Server

# Citus sends what changes a schema on to all nodes of a cluster, or refuses it on a worker. A server without
# its library has no such setting.
_SETTING = "citus.enable_metadata_sync"
_LOCAL = f"SELECT set_config('{_SETTING}', 'off', false) WHERE current_setting('{_SETTING}', true) <> ''"

# A host that has gone, or a network that lets nothing through, ends a query after a minute: after 30 s of
# silence, and three probes without an answer, 10 s apart; tcp_user_timeout is in ms.
_SILENCE = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


class ExternalServer(Server):
    """The server that the ANN_BENCHMARKS_PG_ variables name, or that of a shard."""

    def __init__(self, place: Mapping[str, str] | None = None) -> None:
        """Take the host, and the port where it is not libpq's; None: those of the variables."""
        self._place = place

    def start(self, settings: Mapping[str, str]) -> None:
        """Start the system's service if the user has chosen that, and check that the server answers."""
        if self._place is None and starts_service():
            command = ["service", "postgresql", "start"]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                reason = (getattr(error, "stderr", "") or str(error)).strip()
                raise PostgresError(f"`{' '.join(command)}` failed: {reason}") from None
        self.connect().close()

    def stop(self) -> None:
        """Leave it as it is: it is not ours."""

    def adapt(self) -> None:
        """Leave it as it is: what a session cannot set is refused when the index is made."""

    def connection_parameters(self) -> dict[str, Any]:
        """Keyword arguments of libpq, from the environment."""
        return {**_SILENCE, **connection_parameters(), **(self._place or {})}

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection in autocommit mode. Citus sends none of its statements on to other servers."""
        connection = super().connect()
        try:
            connection.execute(_LOCAL)
        except psycopg.Error as error:
            connection.close()
            raise refusal("the server cannot be used", error) from None
        return connection

    @property
    def data_folder(self) -> Path | None:
        """Not ours to know."""
        return None
