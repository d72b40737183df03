"""Somebody else's server, named by the environment: connected to, never stopped."""

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from ..environment import PREFIX, connection_parameters, starts_service
from ..errors import PostgresError, refusal
from .base import Server
from .libpq import SHARED_BACKENDS, backend_of, unset_connection

_HOLDERS = 12  # of transactions, through a pooler: one of several processes is to have some in each

# A host that has gone, or a network that lets nothing through, ends a query after a minute: after 30 s of
# silence, and three probes without an answer, 10 s apart; tcp_user_timeout is in ms.
_SILENCE = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


class ExternalServer(Server):
    """The server that the ANN_BENCHMARKS_PG_ variables name."""

    _is_checked = False

    def start(self, settings: Mapping[str, str]) -> None:
        """Start the system's service if the user has chosen that, and check that sessions can be used."""
        if starts_service():
            command = ["service", "postgresql", "start"]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                reason = (getattr(error, "stderr", "") or str(error)).strip()
                raise PostgresError(f"`{' '.join(command)}` failed: {reason}") from None
        if not self._is_checked:
            _check_sessions(self.connection_parameters())
            self._is_checked = True

    def stop(self) -> None:
        """Leave it as it is: it is not ours."""

    def adapt(self) -> None:
        """Leave it as it is: what a session cannot set is refused when the index is made."""

    def connection_parameters(self) -> dict[str, Any]:
        return {**_SILENCE, **connection_parameters()}

    @property
    def data_folder(self) -> Path | None:
        return None


def _check_sessions(parameters: Mapping[str, Any]) -> None:
    """Raise PostgresError where a session may not write, or several backends execute its statements.

    A pooler gives a client that is alone the same backend each time. So others hold transactions meanwhile.
    Nothing is set here: the next client of such a pooler would have it.
    """
    with ExitStack() as stack:
        first = stack.enter_context(unset_connection(parameters))
        try:
            own = backend_of(first)
            _check_writable(first)
            is_pooled = own != first.info.backend_pid
            for _ in range(_HOLDERS if is_pooled else 1):
                holder = stack.enter_context(unset_connection(parameters))
                holder.execute("BEGIN")
                if backend_of(holder) == own or backend_of(first) != own:
                    raise PostgresError(SHARED_BACKENDS)
        except psycopg.Error as error:
            raise refusal("the server cannot be used", error) from None


def _check_writable(connection: psycopg.Connection[Any]) -> None:
    row = connection.execute(
        "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')"
    ).fetchone()
    assert row is not None
    is_standby, is_read_only = row
    if is_standby:
        raise PostgresError(
            f"the server is a standby, which takes no table: name its primary in {PREFIX}HOST"
        )
    if is_read_only == "on":
        raise PostgresError(
            f"user '{connection.info.user}' has default_transaction_read_only on, and a table is to be made:"
            f" name another in {PREFIX}USER, or allow it to write"
        )
