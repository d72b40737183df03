"""pgbouncer.ini, and the query that gives each new server connection its settings."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import sql

from ..errors import PostgresError
from ..statement import LOAD_VECTOR
from .program import NAME, SESSION

PORT = "6432"  # a part of the socket's name, and nothing else
_STATEMENTS = 100  # prepared ones that a server connection keeps; a session has fewer than ten
_MOST_CLIENTS = 10_000
_SERVER_CONNECTIONS = 500  # that our server takes
_OTHER_FILES = 2 * _SERVER_CONNECTIONS + 200  # those, the clients that check them, and pgbouncer's own
# Of a connect_query, which it writes into a buffer of 512. With a longer one, no connection can be opened.
_MOST_BYTES = 506
_LONG = 30 * 86_400  # s


@dataclass(frozen=True)
class PoolSettings:
    """What a pool is: its mode, its server connections, and the settings that these have."""

    mode: str
    size: int  # server connections; in session mode, as many as there are clients
    settings: Mapping[str, str]  # as the server writes them


def configuration(server: Mapping[str, Any], folder: Path, pool: PoolSettings) -> str:
    """Return the text of pgbouncer.ini: its socket is in `folder`, and `server` has libpq's parameters."""
    clients = most_clients()
    database = {
        "host": str(server["host"]),
        "port": str(server["port"]),
        "dbname": str(server["dbname"]),
        "user": str(server["user"]),
        "pool_size": str(clients if pool.mode == SESSION else pool.size),
    }
    if pool.mode != SESSION:
        database["connect_query"] = connect_query(pool.settings)
    settings = {
        "listen_port": PORT,
        "unix_socket_dir": str(folder),
        "unix_socket_mode": "0700",
        "auth_type": "any",  # who reaches the socket may connect, as to the server itself
        "pool_mode": SESSION if pool.mode == SESSION else "transaction",
        # Besides those that are measured, one that checks each server connection.
        "max_client_conn": str(clients + _SERVER_CONNECTIONS),
        # What a connection has prepared and was checked for is there until the pooler ends.
        "server_lifetime": str(_LONG),
        "server_idle_timeout": "0",
        "server_login_retry": "1",
        "query_wait_timeout": "0",  # who waits for a server connection is slow, and not turned away
        "log_connections": "0",
        "log_disconnections": "0",
        "log_stats": "0",
    }
    if pool.mode != SESSION:
        settings["max_prepared_statements"] = str(_STATEMENTS)
    place = " ".join(f"{name}={_quoted(value)}" for name, value in database.items())
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[databases]", f"{server['dbname']} = {place}", "[pgbouncer]", *lines, ""])


def connect_query(settings: Mapping[str, str]) -> str:
    """Return what a new server connection runs first; pgbouncer logs its errors and goes on.

    Libraries other than pgvector's are loaded by the first query, and check then what is set here.
    """
    sets = [
        sql.SQL("set_config({},{},false)").format(name, value).as_string() for name, value in settings.items()
    ]
    found = ";".join([LOAD_VECTOR, *([f"SELECT {','.join(sets)}"] if sets else [])])
    if (size := len(found.encode())) > _MOST_BYTES:
        raise PostgresError(
            f"the settings of a connection are a connect_query of {size} bytes, and {NAME} takes"
            f" {_MOST_BYTES}: give fewer by --setting"
        )
    return found


def most_clients() -> int:
    """Return how many clients one pgbouncer takes here: it has a file for each."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_CLIENTS if files == resource.RLIM_INFINITY else files - _OTHER_FILES
    return max(min(_MOST_CLIENTS, most), 1)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
