"""Servers: the embedded one, one of the machine's own programs, and somebody else's; and those of tiers."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..environment import PREFIX, folder_variable, given_settings, server_kind
from ..errors import PostgresError
from ..settings import megabytes
from . import machine
from .account import server_account
from .base import Server
from .cluster import default_folder, folder_beside
from .external import ExternalServer
from .local import LocalServer
from .programs import embedded_installation, installed_binaries
from .standby import StandbyServer

__all__ = [
    "Server", "TieredServers", "chosen_build", "chosen_programs", "current_server", "replica_server",
    "shard_server", "stop_replicas", "use_installation",
]  # fmt: skip

_BUILD_BUFFERS = 8 << 30  # at most, of a server that builds: the scan of a table uses hardly any of them
_LEAST_BUILD_BUFFERS = 128 << 20

_current: Server | None = None
_shards: dict[int, Server] = {}
_replicas: dict[int, StandbyServer] = {}
_chosen: tuple[Path, str, str] | None = None  # programs, name of the data's folder, build


def current_server() -> Server:
    """The server that the environment names; one for the whole process, so that definitions share it."""
    global _current
    if _current is None:
        _current = _make_server()
    return _current


def shard_server(number: int) -> Server:
    """The server of a shard, from 1 on, which is one of our own.

    It is in a folder beside the current server's, one for the whole process, whatever the number of shards:
    the tables of each number are others. PostgresError where the environment names another's server.
    """
    if number not in _shards:
        programs = chosen_programs()
        if programs is None:
            raise PostgresError(
                f"shards are servers of our own, and {PREFIX}HOST or the like names another's: unset these,"
                " or leave --shards out"
            )
        _shards[number] = LocalServer(programs, folder_beside(_data_folder(), f"shard{number}"), number)
    return _shards[number]


def replica_server(number: int) -> StandbyServer:
    """The standby of a number, from 1 on, of the current server, which has to be one of our own.

    It is in a folder beside that server's, one for the whole process, whatever the number of replicas.
    """
    primary = current_server()
    assert isinstance(primary, LocalServer)
    if number not in _replicas:
        _replicas[number] = StandbyServer(number, primary)
    return _replicas[number]


def stop_replicas() -> None:
    """Stop all standbys, which take CPU while their primary writes; they catch up when they are started."""
    for server in _replicas.values():
        server.stop()


def use_installation(installation: Path, name: str, build: str = "") -> None:
    """Have the server of this process run by the programs of a folder, with data in a folder of its own.

    `build` is what tells it from others of the same version.
    """
    global _current, _chosen
    if _chosen != (installation, name, build):
        for server in [*_replicas.values(), *([_current] if _current else []), *_shards.values()]:
            server.stop()
        _shards.clear()
        _replicas.clear()
        _current, _chosen = None, (installation, name, build)


def chosen_build() -> str:
    """Return what tells this process's server from others of the same version, "" where nothing does."""
    return "" if _chosen is None else _chosen[2]


def chosen_programs() -> Path | None:
    """Return the folder of the programs that run this process's server, None for somebody else's server."""
    if _chosen is not None:
        return _chosen[0] / "bin"
    kind = server_kind()
    if kind == "external":
        return None
    return embedded_installation() / "bin" if kind == "embedded" else installed_binaries()


def _make_server() -> Server:
    programs = chosen_programs()
    if programs is None:
        return ExternalServer()
    return LocalServer(programs, _data_folder())


def _data_folder() -> Path:
    data = folder_variable("DATA") or default_folder(server_account())
    return data if _chosen is None else data.with_name(f"{data.name}-{_chosen[1]}")


class TieredServers:
    """Servers that workers, or containers, start with the memory of a smaller machine.

    The framework simulates that machine (tiers/sweep.py is its side). A tier is whatever has
    `shared_buffers`, `ram`, `cpus` and `limited_disk`, sizes in bytes, None without a limit.
    """

    def __init__(self) -> None:
        """Raise PostgresError where the environment names a server that is not ours."""
        if server_kind() == "external":
            raise PostgresError(
                f"tiers simulate servers of our own: unset {PREFIX}HOST and the like ({PREFIX}BIN names your"
                " programs), or leave --tiers out"
            )

    def check(self, tiers: Sequence[Any]) -> None:
        """Raise PostgresError for tiers whose shared_buffers the user sets."""
        if "shared_buffers" in given_settings() and any(tier.shared_buffers is not None for tier in tiers):
            raise PostgresError(f"tiers set shared_buffers: take it out of {PREFIX}SETTINGS")

    def folders(self, kind: str, count: int) -> Sequence[Path]:
        """Return the folders of the data of a server and of `count` others beside it, shards or replicas."""
        found = shard_server if kind == "shards" else replica_server
        every = [current_server(), *(found(number + 1) for number in range(count))]
        return [folder for server in every if (folder := server.data_folder)]

    def environment(self, tier: Any, groups: Sequence[Path] = ()) -> Mapping[str, str]:
        """Return the variables of a process whose server is to have what a tier has.

        None: one that leaves the memory to the build and to the system's cache. The user's own settings win,
        but for what the tier is about.
        """
        self.check([tier] if tier else [])
        settings: dict[str, str] = {}
        if tier is None:
            buffers = max(min(_BUILD_BUFFERS, machine.memory_bytes() // 16), _LEAST_BUILD_BUFFERS)
            settings["shared_buffers"] = megabytes(buffers)
        elif tier.shared_buffers is not None:
            settings["shared_buffers"] = megabytes(tier.shared_buffers)
        words = (f"{name}={value}" for name, value in {**settings, **given_settings()}.items())
        memory = {f"{PREFIX}RAM": megabytes(tier.ram)} if tier and tier.ram else {}
        groups_text = ":".join(map(str, groups))
        return {f"{PREFIX}SETTINGS": shlex.join(words), f"{PREFIX}GROUPS": groups_text, **memory}
