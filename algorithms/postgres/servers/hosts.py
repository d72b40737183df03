"""The shards' servers that the user names in ANN_BENCHMARKS_PG_SHARD_HOSTS, one for each shard."""

import re

from ..environment import PREFIX, variable
from ..errors import PostgresError
from .external import ExternalServer

VARIABLE = f"{PREFIX}SHARD_HOSTS"
MOST_OF_ONE_MACHINE = 64  # servers of our own
_LONGEST = 64_000  # characters of the list
_PLACE = re.compile(r"(?:\[(?P<address>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^\s:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


def shard_hosts() -> list[ExternalServer]:
    """Return the servers that the variable names, none where it is not set; PostgresError says what is wrong.

    User, password and database are those of the external server's variables.
    """
    text = variable("SHARD_HOSTS", longest=_LONGEST)
    places = [_read(word.strip()) for word in text.split(",")] if text else []
    if twice := [place for place in places if places.count(place) > 1]:
        name = ":".join(twice[0].values())
        raise PostgresError(f"{VARIABLE} names {name} twice: each shard has a server of its own")
    return [ExternalServer(place) for place in places]


def hosts_of(count: int) -> list[ExternalServer]:
    """Return the servers of this number of shards, none where the shards are servers of our own."""
    hosts = shard_hosts()
    if hosts and count > len(hosts):
        raise PostgresError(f"{VARIABLE} names {len(hosts)} of {count} servers: name all, or have fewer")
    if not hosts and count > MOST_OF_ONE_MACHINE:
        raise PostgresError(
            f"{count} shards are too many servers for one machine, which has {MOST_OF_ONE_MACHINE} at most:"
            f" name servers that run already in {VARIABLE}, or have fewer"
        )
    return hosts[:count]


def _read(word: str) -> dict[str, str]:
    found = _PLACE.fullmatch(word)
    if found is None or not 0 < int(found["port"] or 1) < 2**16:
        raise PostgresError(
            f"'{word:.80}' in {VARIABLE} is no server: write HOST or HOST:PORT, with commas between them, and"
            " an IPv6 address in brackets"
        )
    place = {"host": found["address"] or found["host"]}
    return place | ({"port": found["port"]} if found["port"] else {})
