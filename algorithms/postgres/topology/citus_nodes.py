"""Servers that run already as the nodes of Citus: those that its users have registered, or nodes for a run.

When a server becomes a node, Citus deletes what it knows of other clusters. So a run adds nodes only where
no server has Citus in the database yet, and drops Citus with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from ..environment import PREFIX
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.hosts import VARIABLE
from .citus_extension import CITUS, belongs_to_users

_MOST_NAMED = 4  # nodes that a message names
# What would change the hosts for good: settings of all users, and what sessions send on to all nodes.
_ADDING = (
    "SET citus.enable_metadata_sync = off; SET citus.enable_ddl_propagation = off;"
    " SET citus.enable_alter_role_set_propagation = off"
)
# Those that Citus spreads a new table over.
_WITH_SHARDS = (
    "SELECT nodename, nodeport FROM pg_dist_node WHERE isactive AND shouldhaveshards AND noderole = 'primary'"
)


@dataclass(frozen=True)
class _Host:
    """What a server shows of itself before it is a node."""

    place: tuple[str, int]  # host and port
    account: tuple[str, str]  # user and database
    start: Any  # no two servers share it
    version: str  # of Citus
    has_cluster: bool  # users have made one in the database


def check_nodes(coordinator: Server, servers: Sequence[Server]) -> None:
    """Raise PostgresError where Citus cannot have these servers as nodes, or only with a change to theirs."""
    with naming("the coordinator"):
        own = _look_at(coordinator)
    seen = {own.start: "the coordinator"}
    hosts = []
    for number, server in enumerate(servers, 1):
        with naming(f"shard {number} of {len(servers)}"):
            host = _look_at(server)
            if host.start in seen:
                raise PostgresError(f"this is the server of {seen[host.start]}: Citus needs one for each")
            _check_alike(own, host)
            hosts.append(host)
            seen[host.start] = f"shard {number}"
    if own.has_cluster:
        with naming("the coordinator"), coordinator.connect() as connection:
            if connection.execute("SELECT groupid FROM pg_dist_local_group").fetchone() != (0,):
                raise PostgresError(
                    "the server is a worker of its Citus cluster: name the cluster's coordinator in"
                    f" {PREFIX}HOST"
                )
            if connection.execute(f"{_WITH_SHARDS} AND groupid = 0").rowcount:
                raise PostgresError(
                    "Citus would spread the table over the coordinator, too: have its shouldhaveshards off"
                    " (citus_set_node_property), or use another --shard-engine"
                )
            registered = connection.execute(_WITH_SHARDS).fetchall()
        _check_registered([host.place for host in hosts], registered)


def add_nodes(coordinator: Server, connection: psycopg.Connection[Any], servers: Sequence[Server]) -> None:
    """Make the servers nodes, unless users have made them that: then check_nodes has seen it."""
    if belongs_to_users(coordinator, connection):
        return
    connection.execute(_ADDING)
    for number, server in enumerate(servers, 1):
        parameters = server.connection_parameters()
        with naming(f"shard {number} of {len(servers)}"):
            try:
                if number == 1 and "password" in parameters:
                    _give_password(connection, parameters)
                connection.execute("SELECT citus_add_node(%s, %s)", place_of(server))
            except psycopg.DatabaseError as error:
                raise refusal("the coordinator cannot have the server as a node of Citus", error) from None


def place_of(server: Server) -> tuple[str, int]:
    """Return host and port of a server, as Citus has them of a node."""
    with server.connect() as connection:
        return connection.info.host, connection.info.port


def _give_password(connection: psycopg.Connection[Any], parameters: Mapping[str, Any]) -> None:
    """Have the coordinator's sessions connect to all nodes by the user's password."""
    connection.execute(
        "INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo) VALUES (0, current_user, %s)",
        [make_conninfo(password=parameters["password"])],
    )


def _look_at(server: Server) -> _Host:
    with server.connect() as connection:
        info = connection.info
        row = connection.execute(
            "SELECT COALESCE(installed_version, default_version) FROM pg_available_extensions"
            " WHERE name = %s",
            [CITUS],
        ).fetchone()
        assert row is not None
        has_cluster = belongs_to_users(server, connection)
        place, account = (info.host, info.port), (info.user, info.dbname)
        return _Host(place, account, server.start_mark(), row[0], has_cluster)


def _check_alike(coordinator: _Host, host: _Host) -> None:
    """Raise PostgresError where the coordinator's Citus cannot ask the host for the user's rows."""
    if host.version != coordinator.version:
        raise PostgresError(
            f"the server has Citus {host.version}, and the coordinator {coordinator.version}: use the same"
        )
    if host.account != coordinator.account:
        (user, database), (own_user, own_database) = host.account, coordinator.account
        raise PostgresError(
            f"Citus asks it as the coordinator's user '{own_user}' in database '{own_database}', and not as"
            f" '{user}' in '{database}': set {PREFIX}USER and {PREFIX}DBNAME to these"
        )
    if host.has_cluster and not coordinator.has_cluster:
        raise PostgresError(
            f"database '{host.account[1]}' has Citus, which the coordinator's has not: name the coordinator"
            f" of its cluster in {PREFIX}HOST, or a database without Citus in {PREFIX}DBNAME"
        )
    if coordinator.has_cluster and not host.has_cluster:
        raise PostgresError(
            f"database '{host.account[1]}' has no Citus, which the coordinator's has: name hosts of its"
            f" cluster in {VARIABLE}, or a database without Citus in {PREFIX}DBNAME"
        )


def _check_registered(places: Sequence[tuple[str, int]], registered: Sequence[tuple[str, int]]) -> None:
    """Raise PostgresError where the places are not all of those that the coordinator has registered."""
    for number, (host, port) in enumerate(places, 1):
        if (host, port) not in registered:
            raise PostgresError(
                f"shard {number} of {len(places)}: the coordinator's Citus has no active node {host}:{port}"
                f" ({_named(registered)}): name it as there, or have it registered by"
                f" SELECT citus_add_node('{host}', {port})"
            )
    if others := [place for place in registered if place not in places]:
        raise PostgresError(
            f"Citus spreads a table over all of its {len(registered)} nodes, {_named(others)} among them:"
            f" name all in {VARIABLE}, with --shards {len(registered)}"
        )


def _named(places: Iterable[tuple[str, int]]) -> str:
    words = [f"{host}:{port}" for host, port in sorted(places)]
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(words[:_MOST_NAMED]) + more if words else "it has none"
