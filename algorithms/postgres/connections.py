"""What is to be known before anything is built: connections that there can be, and rights that turns take."""

import re
import resource

from .environment import (
    PREFIX,
    connection_parameters,
    given_settings,
    ram_bytes,
    server_kind,
    starts_service,
    variable,
)
from .errors import PostgresError
from .servers import chosen_programs
from .servers.external import ExternalServer
from .servers.hosts import shard_hosts
from .servers.libpq import unset_connection
from .settings import MOST_CONNECTIONS, current_setting

_FILES_A_CLIENT = 3  # while it starts: both ends of a socket, and its book
_OTHER_FILES = 32


def most_connections(taken: int | None = None) -> int | None:
    """Return how many clients can be connected at the same time, None where that is not known yet.

    `taken` is how many a pooler takes, whose clients share the server's connections.
    """
    limits = (taken or _taken_by_server(), _files_allow())
    known = [limit for limit in limits if limit is not None]
    return min(known, default=None)


def check_parking() -> None:
    """Raise PostgresError where the account may not mark indexes of a table invalid, as rounds do.

    Also where the memory that contenders share is not given as a size.
    """
    ram_bytes()
    others = shard_hosts()
    # The account of a server of our own may.
    if chosen_programs() is None and (not others or variable("HOST")):
        others.append(ExternalServer())
    for server in others:
        server.start({})
        with server.connect() as connection:
            if current_setting(connection, "is_superuser") != "on":
                raise PostgresError(
                    f"user '{connection.info.user}' may not park an index while others have their turn: name"
                    f" a superuser in {PREFIX}USER (or ALTER ROLE ... SUPERUSER), or leave rounds out"
                )


def _taken_by_server() -> int | None:
    text = given_settings().get("max_connections", str(MOST_CONNECTIONS))
    if server_kind() == "external":
        if starts_service():
            return None  # it need not run yet
        try:
            with unset_connection(connection_parameters()) as connection:
                text = current_setting(connection, "max_connections")
        except PostgresError:
            return None  # callers report it if it matters
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _files_allow() -> int | None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # up to which a process can raise its own limit
    return None if most == resource.RLIM_INFINITY else max((most - _OTHER_FILES) // _FILES_A_CLIENT, 1)
