"""Servers: the embedded one, one of the machine's own programs, and somebody else's."""

from pathlib import Path

from ..environment import folder_variable, server_kind
from .account import server_account
from .base import Server
from .binaries import embedded_installation, installed_binaries
from .cluster import default_folder
from .external import ExternalServer
from .local import LocalServer

__all__ = ["Server", "chosen_build", "chosen_programs", "current_server", "use_installation"]

_current: Server | None = None
_chosen: tuple[Path, str, str] | None = None  # programs, name of the data's folder, build


def current_server() -> Server:
    """The server that the environment names; one for the whole process, so that definitions share it."""
    global _current
    if _current is None:
        _current = _make_server()
    return _current


def use_installation(installation: Path, name: str, build: str = "") -> None:
    """Have the server of this process run by the programs of a folder, with data in a folder of its own.

    `build` is what tells it from others of the same version.
    """
    global _current, _chosen
    if _chosen != (installation, name, build):
        if _current is not None:
            _current.stop()
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
    if _chosen is None:
        return LocalServer(programs, folder_variable("DATA"))
    data = folder_variable("DATA") or default_folder(server_account())
    return LocalServer(programs, data.with_name(f"{data.name}-{_chosen[1]}"))
