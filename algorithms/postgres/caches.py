"""What a server's memory holds: filled for one index, taken by others in their turns, and filled again."""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from .catalog import relation_bytes
from .servers import Server
from .settings import shared_buffers

_users: dict[Any, tuple[str, ...]] = {}  # what queries use, by the start of their server
_known: set[str] = set()  # tables and indexes that queries of this process have used, on any server


class Warmth:
    """Whether a server's memory was filled with what queries need, and has not lost it since."""

    def __init__(self) -> None:
        """It was not."""
        self._mark: Any = None  # of the server's start

    def forget(self) -> None:
        """Have it filled again, although the server has not ended."""
        self._mark = None

    def ensure(self, server: Server, fill: Callable[[psycopg.Connection[Any]], None]) -> None:
        """Have `fill` fill it over a connection, unless that was done since the server started."""
        mark = server.start_mark()
        if mark != self._mark:
            with server.connect() as connection:
                fill(connection)
            self._mark = mark


def take_over(server: Server, relations: Sequence[str], where: str = "") -> bool:
    """Have queries use these from now on; return whether they used others before, or none since its start.

    `where` tells the servers that answer the queries from other ones that have the same relations.
    """
    mark, user = server.start_mark(), (*relations, where)
    is_new = _users.get(mark) != user
    _users[mark] = user
    _known.update(relations)
    return is_new


def cache_room(connection: psycopg.Connection[Any], ram: float) -> float:
    """Return the bytes that the system's cache has, of what there is for it and the server's buffers.

    What is in these buffers is mostly in that cache, too, so that they are no room for more.
    """
    return ram - shared_buffers(connection)


def is_short(connection: psycopg.Connection[Any], room: float) -> bool:
    """Whether those that take turns on a server may push each other out of `room` bytes of the cache."""
    return sum(relation_bytes(connection, relation) for relation in _known) > room


def fitting_relations(
    connection: psycopg.Connection[Any], table: str, indexes: Sequence[str], room: float
) -> list[str]:
    """Return what of a table and its indexes `room` bytes hold: all of it, the indexes, or nothing.

    Reading what does not fit from one end to the other would push out what queries have brought in.
    """
    for relations in ([table, *indexes], [*indexes]):
        if sum(relation_bytes(connection, relation) for relation in relations) <= room:
            return relations
    return []
