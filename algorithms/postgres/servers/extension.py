"""The extension that a plug-in measures: present, created, and as new as its library."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from ..catalog import SCHEMA
from ..environment import OTHER_FOLDER, server_kind
from ..errors import NotInstalledError, PostgresError, refusal
from . import Server, chosen_programs, current_server
from .external import ExternalServer
from .installation import extension_version
from .libpq import give_settings

LEFTOVERS = f"{SCHEMA}_citus"  # the schema of what a run makes with another extension, and drops
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_CREATION = "CREATE EXTENSION IF NOT EXISTS {} CASCADE"
_REMEDIES = {
    "embedded": "`python install.py --local --algorithm {algorithm}` downloads it, "
    "or takes it from a release archive that you have (--archive FILE)",
    "embedded, no release known": "`python install.py --local --algorithm {algorithm} --archive FILE` "
    "takes it from a release archive that you have",
    "installed": "install its package for that PostgreSQL",
    "external": "install it there",
}


@dataclass(frozen=True)
class RequiredExtension:
    """The extension that a plug-in measures, and the others that it takes."""

    name: str
    library: str  # the server must load it when it starts; "": none
    builds_on: tuple[str, ...]  # other extensions, whose plug-ins have their names
    algorithm: str  # the plug-in's folder
    # Called where a server of ours has the schema LEFTOVERS, perhaps of a run that was killed.
    drop_leftovers: Callable[[psycopg.Connection[Any]], None] = lambda connection: None

    @property
    def all_names(self) -> tuple[str, ...]:
        """All extensions that an index depends on, pgvector among them."""
        return tuple(dict.fromkeys(["vector", *self.builds_on, self.name]))

    def creation(self) -> list[str]:
        """Return the statements that create the extensions."""
        return [_CREATION.format(name) for name in (*self.builds_on, self.name)]

    @property
    def parts(self) -> Sequence[tuple[str, str]]:
        """The extensions that have to be there, each with the folder of its plug-in."""
        return [(self.name, self.algorithm), *((one, one) for one in self.builds_on)]

    def check(self) -> None:
        """Raise NotInstalledError where the server lacks an extension; one of ours is not started for it."""
        if programs := chosen_programs():
            lacking = [part for part in self.parts if extension_version(programs, part[0]) is None]
            if lacking:
                raise NotInstalledError(lacking_text(*lacking[0]))
            return
        server = ExternalServer()
        try:
            server.start({})
            with server.connect() as connection:
                for name, algorithm in self.parts:
                    check_available(connection, name, algorithm, is_ours=False)
        except psycopg.Error as error:
            raise refusal("the server cannot be used", error) from None

    def start_server(self, server: Server | None = None, settings: Mapping[str, str] = NO_SETTINGS) -> Server:
        """Start a server with the libraries that it has to load; PostgresError if it lacks one.

        By default, it is the current one. `settings` take precedence over its profile and the user's.
        """
        server = server or current_server()
        server.start(settings)
        server.adapt()
        with server.explaining("looking for extensions"), server.connect() as connection:
            # Before the library is required: without it, the server would not start.
            for name, algorithm in self.parts:
                check_available(connection, name, algorithm, server.is_ours)
            libraries = []
            if server.is_ours:
                if connection.execute("SELECT to_regnamespace(%s)", [LEFTOVERS]).fetchone() != (None,):
                    self.drop_leftovers(connection)
                libraries = libraries_to_preload(connection)
        for name in dict.fromkeys([*filter(None, [self.library]), *libraries]):
            server.preload(name)
        return server

    def create(self, server: Server, connection: psycopg.Connection[Any]) -> None:
        """Create the extensions where they are missing."""
        for name in (*self.builds_on, self.name):
            create_extension(server, connection, name)


def check_available(
    connection: psycopg.Connection[Any], name: str, algorithm: str, is_ours: bool = True
) -> None:
    """Raise NotInstalledError where the server lacks the extension; `algorithm` is the plug-in's folder."""
    offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [name])
    if offered.rowcount == 0:
        raise NotInstalledError(lacking_text(name, algorithm, is_ours))


def lacking_text(name: str, algorithm: str, is_ours: bool = True) -> str:
    """Say that the server lacks an extension, and how to get it."""
    kind = server_kind() if is_ours else "external"
    if kind == "embedded" and not list((Path(__file__).parents[2] / algorithm).glob("release.*")):
        kind += ", no release known"
    return (
        f"the server does not have the extension '{name}': {_REMEDIES[kind].format(algorithm=algorithm)}; "
        "or name a server that has it in ANN_BENCHMARKS_PG_HOST,"
        " or programs that have it in ANN_BENCHMARKS_PG_BIN"
    )


def create_extension(server: Server, connection: psycopg.Connection[Any], name: str) -> None:
    """Create it where it is missing; on a server of ours, bring it to the library's version."""
    row = connection.execute(
        "SELECT installed_version, default_version, extnamespace::regnamespace::text,"
        " has_schema_privilege(extnamespace, 'USAGE')"
        " FROM pg_available_extensions LEFT JOIN pg_extension ON extname = name WHERE name = %s",
        [name],
    ).fetchone()
    assert row is not None
    created, offered, schema, is_usable = row
    if is_usable is False:
        user = connection.info.user
        raise NotInstalledError(
            f"the extension '{name}' is in the schema {schema}, which user '{user}' may not use: have a"
            f' superuser run GRANT USAGE ON SCHEMA {schema} TO "{user}"'
        )
    try:
        if created is None:
            connection.execute(_CREATION.format(name))
            if not server.is_ours:
                give_settings(connection)  # its schema, which may be another one than the first
        elif server.is_ours and created != offered:
            connection.execute(f"ALTER EXTENSION {name} UPDATE")
    except psycopg.errors.InsufficientPrivilege:
        raise NotInstalledError(
            f"this user may not create the extension '{name}': have a superuser run CREATE EXTENSION {name}"
        ) from None
    except psycopg.errors.InvalidParameterValue:
        raise PostgresError(
            f"the data folder was used with {name} {created}, the server now has {offered}: name "
            f"{OTHER_FOLDER}, or run DROP EXTENSION {name} CASCADE, which drops its indexes"
        ) from None
    except (
        psycopg.errors.InvalidSchemaName,  # the user's search_path has none
        psycopg.errors.UndefinedFile,
        psycopg.errors.FeatureNotSupported,
        psycopg.InternalError,
    ) as error:
        raise refusal(f"the server cannot create the extension '{name}'", error) from None


def libraries_to_preload(connection: psycopg.Connection[Any]) -> list[str]:
    """Libraries of the indexes that earlier runs have left, which only load when the server starts.

    PostgreSQL opens every index of a table before it plans a query, also one that is parked. Raises
    PostgresError where the server has lost the library of an index.
    """
    found = connection.execute(
        "SELECT DISTINCT probin, indrelid::regclass::text FROM pg_index"
        " JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam"
        " JOIN pg_proc ON pg_proc.oid = amhandler"
        " WHERE probin IS NOT NULL AND relnamespace = to_regnamespace(%s)",
        [SCHEMA],
    ).fetchall()
    needed = []
    for library, table in found:
        name = library.rpartition("/")[2]
        try:
            connection.execute(f"LOAD '{library}'")
        except psycopg.errors.UndefinedFile:
            raise PostgresError(
                f"{table} has an index that needs the library '{name}', which the server no longer has: "
                f"install it again, or name {OTHER_FOLDER}"
            ) from None
        except psycopg.Error:
            if connection.closed:
                raise  # the server or the session has ended: nothing is known about the library
            needed.append(name)
    return needed
