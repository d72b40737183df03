"""A server's socket once more, in a folder of its own: bytes and round trips are counted, and may stall."""

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
    """What hands on to a server, and back; `parameters` are libpq's for connections through it.

    The counts are those of all connections. A round trip is something that a client sends after an answer.
    """

    parameters: dict[str, Any]
    received: int = 0  # bytes by clients
    sent: int = 0  # bytes by the server
    round_trips: int = 0
    stalls_at: bytes = b""  # what a client sends, and nothing after it on that connection; empty: all
    is_stalled: bool = False
    counting: threading.Lock = field(default_factory=threading.Lock)  # each connection has threads of its own

    def connect(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on between both, in two threads."""
        answered = threading.Event()
        answered.set()
        for hand in (self._hand_on, self._hand_back):
            threading.Thread(target=hand, args=(client, server, answered), daemon=True).start()

    def _hand_on(self, client: socket.socket, server: socket.socket, answered: threading.Event) -> None:
        """Hand on what a client sends; a stall reads it, and lets nothing through."""
        stalls = False
        with suppress(OSError):
            while data := client.recv(SOME):
                with self.counting:
                    self.received += len(data)
                    self.round_trips += answered.is_set()
                answered.clear()
                if self.stalls_at and self.stalls_at in data:
                    stalls = self.is_stalled = True
                if not stalls:
                    server.sendall(data)
        close(server, client)

    def _hand_back(self, client: socket.socket, server: socket.socket, answered: threading.Event) -> None:
        """Hand on what the server sends, which is counted before the client can have read it."""
        with suppress(OSError):
            while data := server.recv(SOME):
                with self.counting:
                    self.sent += len(data)
                answered.set()
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
        folder.chmod(0o755)  # a coordinator has an account of its own
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
