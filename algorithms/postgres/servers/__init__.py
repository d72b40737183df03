"""Servers: the embedded one, one of the machine's own programs, and somebody else's."""

from pathlib import Path

from ..environment import server_kind, variable
from .base import Server
from .binaries import embedded_installation, installed_binaries
from .external import ExternalServer
from .local import LocalServer

__all__ = ["Server", "current_server"]

_current: Server | None = None


def current_server() -> Server:
    """The server that the environment asks for; one for the whole process, so that definitions share it."""
    global _current
    if _current is None:
        _current = _make_server()
    return _current


def _make_server() -> Server:
    kind = server_kind()
    if kind == "external":
        return ExternalServer()
    binaries = embedded_installation() / "bin" if kind == "embedded" else installed_binaries()
    folder = variable("DATA")
    return LocalServer(binaries, Path(folder).expanduser() if folder else None)
