"""What Citus needs of servers, and how nothing of ours is left there.

On servers of ours, a run creates the extension, makes the shards nodes of the coordinator, and drops all of
it. Servers that run already have a cluster of their users: a run takes its nodes as they are registered, and
makes nothing but what is in a schema of its own. The settings that users had before are kept there, so that
the next run can put them back where one was killed.

Citus' event trigger needs its library, which only loads when the server starts. A server without the library
cannot drop anything while the extension is there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..environment import PREFIX
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.extension import LEFTOVERS as CITUS_SCHEMA
from ..servers.external import SHARD_HOSTS
from ..session.statement import load_libraries

CITUS = "citus"  # the extension and its library
TABLE = f"{CITUS_SCHEMA}.distributed"  # also the name that the run locks on each server
SAVED = f"{CITUS_SCHEMA}.settings_before"  # of users, who have others while a run asks by Citus
_MOST_NAMED = 4  # nodes that a message names
# What the user has set for the role in this database, as "name=value".
_NOW = (
    "SELECT substr(setting, length(%(name)s) + 2) FROM pg_db_role_setting, unnest(setconfig) AS setting"
    " WHERE setrole = session_user::regrole AND starts_with(setting, %(name)s || '=')"
    " AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_OFFERED = "SELECT FROM pg_available_extensions WHERE name = %s"
_CREATED = "SELECT FROM pg_extension WHERE extname = %s"
# Citus spreads a new table over these.
_NODES = (
    "SELECT groupid, nodename, nodeport FROM pg_dist_node"
    " WHERE isactive AND shouldhaveshards AND noderole = 'primary' ORDER BY nodename, nodeport"
)


def check_citus(server: Server) -> None:
    """Raise PostgresError where a server of ours lacks Citus, or the database of another has no cluster."""
    with server.connect() as connection:
        if connection.execute(_OFFERED if server.is_ours else _CREATED, [CITUS]).rowcount:
            return
    lack, remedy = "server does not have", "build it with the server's pg_config (docs/servers.md#citus)"
    if not server.is_ours:
        lack, remedy = "database lacks", "create it on all servers, register the shards by citus_add_node"
    raise PostgresError(f"the {lack} the extension '{CITUS}': {remedy}, or use another --shard-engine")


def check_nodes(coordinator: Server, servers: Sequence[Server]) -> None:
    """Raise PostgresError where servers that run already are not all of the coordinator's nodes."""
    if coordinator.is_ours:
        raise PostgresError(
            f"Citus asks hosts that run already by their coordinator: name it in {PREFIX}HOST"
        )
    with naming("the coordinator"), coordinator.connect() as connection:
        if connection.execute("SELECT groupid FROM pg_dist_local_group").fetchone() != (0,):
            raise PostgresError(
                f"the server is a worker of its Citus cluster: name the cluster's coordinator in {PREFIX}HOST"
            )
        nodes = connection.execute(_NODES).fetchall()
        if any(group == 0 for group, *_ in nodes):
            raise PostgresError(
                "Citus would spread the table over the coordinator, too: have its shouldhaveshards off"
                " (citus_set_node_property), or use another --shard-engine"
            )
    check_registered([place_of(server) for server in servers], [(host, port) for _, host, port in nodes])


def check_registered(places: Sequence[tuple[str, int]], nodes: Sequence[tuple[str, int]]) -> None:
    """Raise PostgresError where the places are not those of all nodes."""
    for number, (host, port) in enumerate(places, 1):
        if (host, port) not in nodes:
            raise PostgresError(
                f"shard {number} of {len(places)}: the coordinator's Citus has no active node {host}:{port}"
                f" ({_named(nodes)}): name it as there, or have it registered by"
                f" SELECT citus_add_node('{host}', {port})"
            )
    if others := [place for place in nodes if place not in places]:
        raise PostgresError(
            f"Citus spreads a table over all of its {len(nodes)} nodes, {_named(others)} among them:"
            f" name all in {SHARD_HOSTS}, with --shards {len(nodes)}"
        )


def create_citus(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Create the schema, and on a server of ours the extension, both or none."""
    with connection.transaction():
        if server.is_ours:
            connection.execute(f"CREATE EXTENSION {CITUS}")
        connection.execute(f"CREATE SCHEMA {CITUS_SCHEMA}")


def add_nodes(connection: psycopg.Connection[Any], servers: Sequence[Server]) -> None:
    """Make servers of ours nodes of the coordinator that a session is on."""
    for number, server in enumerate(servers, 1):
        with naming(f"shard {number} of {len(servers)}"):
            try:
                connection.execute("SELECT citus_add_node(%s, %s)", place_of(server))
            except psycopg.DatabaseError as error:
                raise refusal("the coordinator cannot have the server as a node of Citus", error) from None


def place_of(server: Server) -> tuple[str, int]:
    """Return host and port of a server, as Citus has them of a node."""
    with server.connect() as connection:
        return connection.info.host, connection.info.port


def drop_abandoned(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Drop what a run that was killed has left on a server, where no other run uses it."""
    if catalog.lock_soon(connection, TABLE):
        try:
            drop_citus(server, connection)
        except psycopg.Error as error:
            raise refusal("what an earlier run has left of Citus cannot be dropped", error) from None


def drop_citus(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Drop all that was made with Citus, and Citus if it is ours; users get the settings that they had.

    All or nothing of it goes, so that what a kill has left is seen.
    """
    with connection.transaction():
        take_back(connection)
        if connection.execute(_CREATED, [CITUS]).rowcount:
            if server.is_ours:
                connection.execute(f"DROP EXTENSION {CITUS} CASCADE")
            else:
                # The parts of a distributed table are views by now, which Citus would take for tables.
                connection.execute(
                    "SELECT citus_drop_all_shards(logicalrelid, %s, relname, true)"
                    " FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid"
                    " WHERE relnamespace = to_regnamespace(%s)",
                    [CITUS_SCHEMA, CITUS_SCHEMA],
                )
        connection.execute(f"DROP SCHEMA IF EXISTS {CITUS_SCHEMA} CASCADE")


def give(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Give the user these settings, in place of those given before; SAVED has what the user had."""
    with connection.transaction():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {SAVED} (role name, name text, value text)")
        take_back(connection)
        for name, value in settings.items():
            connection.execute(
                f"INSERT INTO {SAVED} VALUES (session_user, %(name)s, ({_NOW}))", {"name": name}
            )
            try:
                _alter(connection, connection.info.user, name, value)
            except psycopg.Error as error:
                raise refusal(f"the server refuses {name} = {value}", error) from None


def take_back(connection: psycopg.Connection[Any]) -> None:
    """Put back what users had before, in the caller's transaction; nothing happens without SAVED."""
    if not catalog.exists(connection, SAVED):
        return
    before = connection.execute(f"SELECT role, name, value FROM {SAVED}").fetchall()
    if before and connection.info.parameter_status("is_superuser") != "on":
        # Others may only change settings that the session knows, those of its libraries.
        names = connection.execute("SELECT extname FROM pg_extension").fetchall()
        load_libraries(connection, [name for (name,) in names])
    for role, name, value in before:
        _alter(connection, role, name, value)
    connection.execute(f"DELETE FROM {SAVED}")


def _alter(connection: psycopg.Connection[Any], role: str, name: str, value: str | None) -> None:
    """Set it for new sessions of the role in this database, or with None no longer."""
    setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
    change = sql.SQL("RESET {}").format(setting)
    if value is not None:
        change = sql.SQL("SET {} = {}").format(setting, value)
    place = map(sql.Identifier, (role, connection.info.dbname))
    connection.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} ").format(*place) + change)


def _named(places: Sequence[tuple[str, int]]) -> str:
    words = [f"{host}:{port}" for host, port in places]
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(words[:_MOST_NAMED]) + more if words else "it has none"
