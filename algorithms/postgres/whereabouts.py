"""Where results are measured: kind and address of the server, its versions, settings that are not its usual.

Results that differ in these are series of their own. All of it is known of a server of ours without a start.
"""

import json
from collections.abc import Sequence
from typing import Any

import psycopg

from .environment import given_settings, server_kind
from .servers import Server, chosen_build, chosen_programs
from .servers.binaries import built_version
from .servers.external import ExternalServer
from .servers.installation import extension_version
from .servers.libpq import overridden_settings

# Of somebody else's server: what can change how long a query or a write takes, and no session of ours sets.
# Tiers set shared_buffers and huge_pages.
MATTERING = (
    "autovacuum", "effective_cache_size", "fsync", "full_page_writes", "io_method", "io_workers",
    "max_parallel_workers_per_gather", "shared_preload_libraries", "synchronous_commit",
    "track_io_timing", "wal_compression", "wal_level", "work_mem",
)  # fmt: skip


def facts_of(server: Server, connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return what is stored of a server that runs, apart from its versions."""
    if server.is_ours:
        return _of_ours()
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)"
        " AND setting IS DISTINCT FROM boot_val ORDER BY name",
        [list(MATTERING)],
    ).fetchall()
    return {
        "server": "external",
        "server_address": address_text(connection),
        "given_settings": _given(),
        "server_settings": json.dumps(dict(rows)),
        "overridden_settings": json.dumps(overridden_settings(connection)),
    }


def known_facts(extensions: Sequence[str]) -> dict[str, Any]:
    """Return what would be stored of the server, and its versions, without starting one of ours.

    PostgresError where there is none.
    """
    programs = chosen_programs()
    if programs is None:
        return external_facts(ExternalServer(), extensions)
    found = {"postgres": built_version(programs.parent)}
    for name in extensions:
        if version := extension_version(programs, name):
            found[name] = version
    return {**_of_ours(), **{f"{name}_version": version for name, version in found.items()}}


def offered_versions(connection: psycopg.Connection[Any], extensions: Sequence[str]) -> dict[str, str]:
    """Return the versions of the server and of its extensions, created or not."""
    offered = connection.execute(
        "SELECT 'postgres', current_setting('server_version') UNION ALL"
        " SELECT name, COALESCE(installed_version, default_version) FROM pg_available_extensions"
        " WHERE name = ANY(%s) ORDER BY 1",
        [list(extensions)],
    ).fetchall()
    return dict(offered)


def address_text(connection: psycopg.Connection[Any]) -> str:
    """Write where a server is."""
    info = connection.info
    return f"{info.host or 'its socket'}:{info.port}"


def external_facts(server: Server, extensions: Sequence[str]) -> dict[str, Any]:
    """Return the same of somebody else's server."""
    server.start({})
    with server.connect() as connection:
        versions = offered_versions(connection, extensions)
        facts = facts_of(server, connection)
    return {**facts, **{f"{name}_version": version for name, version in versions.items()}}


def _of_ours() -> dict[str, Any]:
    kind = server_kind()
    build = {"build_version": chosen_build()} if chosen_build() else {}
    return {"server": "embedded" if kind == "external" else kind, "given_settings": _given(), **build}


def _given() -> str:
    return json.dumps(dict(sorted(given_settings().items())))
