"""Connections: to a server of ours by its parameters alone, to somebody else's also by libpq's environment.

libpq reads some forty variables, and files in a home folder. Parameters cannot take precedence over all of
them: a service that is named must exist, and TimeZone and DateStyle are no parameters. So whatever connects
to a server of ours does so without these variables. Its parameters carry the mark of that, because they also
reach clients in other processes, whose environments may differ.
"""

import os
from collections.abc import Mapping
from typing import Any

import psycopg

from ..errors import PostgresError
from ..variables import plugin_environment, program_environment

_PREFIX = "PG"  # of libpq's variables, the server's, and those of its programs
# No file has this name, so no password is read from the home folder; and the parameters are ours.
_NO_PASSWORDS = "/dev/null/none"


def own_parameters(host: str, port: str, user: str, dbname: str) -> dict[str, Any]:
    """Keyword arguments of libpq for a server of ours."""
    place = {"host": host, "port": port, "user": user, "dbname": dbname}
    return place | {"passfile": _NO_PASSWORDS, "gssencmode": "disable", "options": ""}


def open_connection(parameters: Mapping[str, Any], seconds: int) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode; psycopg.OperationalError where that takes longer."""
    if _are_own(parameters):
        for name in [name for name in os.environ if name.startswith(_PREFIX)]:
            os.environ.pop(name, None)  # for good: threads that connect would not find it restored in time
    return psycopg.connect(**parameters, autocommit=True, connect_timeout=seconds)


def connect(parameters: Mapping[str, Any]) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode; `parameters` are libpq's, PostgresError names the place."""
    try:
        return open_connection(parameters, 10)
    except (psycopg.Error, UnicodeError) as error:  # the latter: a host's name that no network has
        place = f"{parameters.get('host', 'the default host')}, port {parameters.get('port', 'default')}"
        reason = " ".join(str(error).split())
        raise PostgresError(f"cannot connect to PostgreSQL at {place}: {reason}") from None


def client_environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a program that connects with these parameters."""
    return program_environment() if _are_own(parameters) else plugin_environment() | {"LC_ALL": "C"}


def _are_own(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("passfile") == _NO_PASSWORDS
