"""A server's socket once more, in a folder of its own, which counts the bytes that the server sends."""

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOME = 1 << 16  # bytes at a time


@dataclass
class Relay:
    """What hands on to a server, and back; `parameters` are libpq's for connections through it."""

    parameters: dict[str, Any]
    sent: int = 0  # bytes by the server, over all connections
    counting: threading.Lock = field(default_factory=threading.Lock)  # each connection has threads of its own

    def connect(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on between both, in two threads."""
        for hand in (self._hand_on, self._hand_back):
            threading.Thread(target=hand, args=(client, server), daemon=True).start()

    def _hand_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(SOME):
                server.sendall(data)
        close(server, client)

    def _hand_back(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on what the server sends, which is counted before the client can have read it."""
        with suppress(OSError):
            while data := server.recv(SOME):
                with self.counting:
                    self.sent += len(data)
                client.sendall(data)
        close(server, client)


def close(*ends: socket.socket) -> None:
    """Close both ends of a connection, also for the thread that waits for the other one."""
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(parameters: dict[str, Any]) -> Iterator[Relay]:
    """Give a relay of the server on a Unix socket that libpq's parameters name."""
    name = f".s.PGSQL.{parameters['port']}"
    with tempfile.TemporaryDirectory() as text, socket.socket(socket.AF_UNIX) as listener:
        folder = Path(text)
        folder.chmod(0o755)
        relay = Relay({**parameters, "host": str(folder)})
        listener.bind(str(folder / name))
        (folder / name).chmod(0o666)
        listener.listen()

        def take() -> None:
            with suppress(OSError):
                while True:
                    client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
                    server.connect(f"{parameters['host']}/{name}")
                    relay.connect(client, server)

        threading.Thread(target=take, daemon=True).start()
        try:
            yield relay
        finally:
            close(listener)
