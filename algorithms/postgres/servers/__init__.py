"""Servers: the embedded one, one of the machine's own programs, and somebody else's."""

from pathlib import Path

from ..environment import folder_variable, server_kind
from .account import server_account
from .base import Server
from .binaries import embedded_installation, installed_binaries
from .cluster import default_folder
from .external import ExternalServer
from .local import LocalServer

__all__ = ["Server", "current_server", "use_installation"]

_current: Server | None = None
_chosen: tuple[Path, str] | None = None


def current_server() -> Server:
    """The server that the environment names; one for the whole process, so that definitions share it."""
    global _current
    if _current is None:
        _current = _make_server()
    return _current


def use_installation(installation: Path, name: str) -> None:
    """Have the server of this process run by the programs of a folder, with data in a folder of its own."""
    global _current, _chosen
    if _chosen != (installation, name):
        if _current is not None:
            _current.stop()
        _current, _chosen = None, (installation, name)


def _make_server() -> Server:
    if _chosen is not None:
        installation, name = _chosen
        data = folder_variable("DATA") or default_folder(server_account())
        return LocalServer(installation / "bin", data.with_name(f"{data.name}-{name}"))
    kind = server_kind()
    if kind == "external":
        return ExternalServer()
    binaries = embedded_installation() / "bin" if kind == "embedded" else installed_binaries()
    return LocalServer(binaries, folder_variable("DATA"))
