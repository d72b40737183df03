"""Where results are measured: kind and address of the server, its versions, settings that are not its usual.

Results that differ in these are series of their own. All of it is known of a server of ours without a start,
as are the connections that there can be, and the rights that turns take.
"""

import json
import re
import resource
from collections.abc import Sequence
from typing import Any

import psycopg

from .. import environment
from ..errors import PostgresError
from ..settings import MOST_CONNECTIONS, current_setting
from . import Server, chosen_build, chosen_programs
from .external import ExternalServer
from .installation import extension_version
from .libpq import overridden_settings, unset_connection
from .programs import built_version

# Of somebody else's server: what can change how long a query or a write takes, and no session of ours sets.
# Tiers set shared_buffers and huge_pages.
MATTERING = (
    "autovacuum", "effective_cache_size", "fsync", "full_page_writes", "io_method", "io_workers",
    "max_parallel_workers_per_gather", "shared_preload_libraries", "synchronous_commit",
    "track_io_timing", "wal_compression", "wal_level", "work_mem",
)  # fmt: skip
_OLDEST = 15  # version of PostgreSQL
_FILES_A_CLIENT = 3  # while it starts: both ends of a socket, and its book
_OTHER_FILES = 32


def facts_of(server: Server, connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return what is stored of a server that runs, apart from its versions."""
    if server.is_ours:
        return _read_own_facts()
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)"
        " AND setting IS DISTINCT FROM boot_val ORDER BY name",
        [list(MATTERING)],
    ).fetchall()
    return {
        "server": "external",
        "server_address": f"{connection.info.host or 'its socket'}:{connection.info.port}",
        "given_settings": _given(),
        "server_settings": json.dumps(dict(rows)),
        "overridden_settings": json.dumps(overridden_settings(connection)),
    }


def known_facts(extensions: Sequence[str]) -> dict[str, Any]:
    """Return what would be stored of the server, and its versions, without starting one of ours.

    PostgresError without a server.
    """
    programs = chosen_programs()
    if programs is None:
        server = ExternalServer()
        server.start({})
        with server.connect() as connection:
            _check_version(str(connection.info.server_version // 10_000))
            return {**facts_of(server, connection), **_offered_versions(connection, extensions)}
    found = {"postgres": built_version(programs.parent)}
    _check_version(found["postgres"])
    for name in extensions:
        if version := extension_version(programs, name):
            found[name] = version
    return {**_read_own_facts(), **{f"{name}_version": version for name, version in found.items()}}


def _check_version(version: str) -> None:
    if int(version.partition(".")[0]) < _OLDEST:
        raise PostgresError(f"the server is PostgreSQL {version}: name one of version {_OLDEST} or newer")


def _offered_versions(connection: psycopg.Connection[Any], extensions: Sequence[str]) -> dict[str, str]:
    """Return the versions of the server and of its extensions, created or not."""
    offered = connection.execute(
        "SELECT 'postgres_version', current_setting('server_version') UNION ALL"
        " SELECT name || '_version', COALESCE(installed_version, default_version) FROM"
        " pg_available_extensions WHERE name = ANY(%s) ORDER BY 1",
        [list(extensions)],
    ).fetchall()
    return dict(offered)


def _read_own_facts() -> dict[str, Any]:
    kind = environment.server_kind()
    build = {"build_version": chosen_build()} if chosen_build() else {}
    return {"server": "embedded" if kind == "external" else kind, "given_settings": _given(), **build}


def _given() -> str:
    return json.dumps(dict(sorted(environment.given_settings().items())))


def most_connections(taken: int | None = None) -> int | None:
    """Return how many clients can be connected at the same time, None where that is not known yet.

    `taken` is how many a pooler takes, whose clients share the server's connections.
    """
    limits = [taken or _taken_by_server()]
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)  # up to which a process can raise its own limit
    if files != resource.RLIM_INFINITY:
        limits.append(max((files - _OTHER_FILES) // _FILES_A_CLIENT, 1))
    return min((limit for limit in limits if limit is not None), default=None)


def check_parking() -> None:
    """Raise PostgresError where the account may not mark indexes of a table invalid, as rounds do.

    Also where the memory that contenders share is not given as a size.
    """
    environment.ram_bytes()
    if chosen_programs() is not None:
        return  # the account of a server of our own may
    server = ExternalServer()
    server.start({})
    with server.connect() as connection:
        if current_setting(connection, "is_superuser") != "on":
            raise PostgresError(
                f"user '{connection.info.user}' may not park an index while others have their turn:"
                f" name a superuser in {environment.PREFIX}USER (or ALTER ROLE ... SUPERUSER), or leave"
                " rounds out"
            )


def _taken_by_server() -> int | None:
    text = environment.given_settings().get("max_connections", str(MOST_CONNECTIONS))
    if environment.server_kind() == "external":
        if environment.starts_service():
            return None  # it need not run yet
        try:
            with unset_connection(environment.connection_parameters()) as connection:
                text = current_setting(connection, "max_connections")
        except PostgresError:
            return None  # callers report it if it matters
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
