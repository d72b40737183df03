"""A server's socket once more, in a folder of its own, where bytes are counted, and may stall."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.postgres.clients import ClientPool
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.session import QuerySession

from .programs import temporary_folder

SOME = 1 << 16  # bytes at a time


@dataclass
class Relay:
    """What hands on to a server, and back; `parameters` are libpq's for connections through it."""

    parameters: dict[str, Any]
    sent: int = 0  # bytes by the server, those of all connections
    stalls_at: bytes = b""  # what a client sends, and nothing after it on that connection; empty: all
    is_stalled: bool = False

    def hand_back(self, server: socket.socket, client: socket.socket) -> None:
        """Hand on what the server sends, which is counted before the client can have read it."""
        with suppress(OSError):
            while data := server.recv(SOME):
                self.sent += len(data)
                client.sendall(data)
        close(server, client)

    def hand_on(self, client: socket.socket, server: socket.socket) -> None:
        """Hand on what a client sends; a stall reads it, and lets nothing through."""
        stalls = False
        with suppress(OSError):
            while data := client.recv(SOME):
                if self.stalls_at and self.stalls_at in data:
                    stalls = self.is_stalled = True
                if not stalls:
                    server.sendall(data)
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
    with temporary_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        relay = Relay({**parameters, "host": str(folder)})
        listener.bind(str(folder / name))
        (folder / name).chmod(0o666)  # a coordinator has an account of its own
        listener.listen()

        def take() -> None:
            with suppress(OSError):
                while True:
                    client, server = listener.accept()[0], socket.socket(socket.AF_UNIX)
                    server.connect(f"{parameters['host']}/{name}")
                    threading.Thread(target=relay.hand_on, args=(client, server), daemon=True).start()
                    threading.Thread(target=relay.hand_back, args=(server, client), daemon=True).start()

        threading.Thread(target=take, daemon=True).start()
        try:
            yield relay
        finally:
            close(listener)


def bytes_sent(algorithm: PostgresANN, queries: np.ndarray, count: int) -> np.ndarray:
    """Return the bytes that the server sends for the first query to a session, and for all to two clients."""
    statement = algorithm.statement(queries[0], count)
    with relayed(dict(statement.parameters)) as relay:
        statement = replace(statement, parameters=relay.parameters)
        session, pool = QuerySession(statement), ClientPool(statement, queries, 2)
        pool.prepare(np.array_split(np.arange(len(queries)), 2))
        before = relay.sent
        session.run(session.encode(queries[0]))
        after = relay.sent
        pool.run()
        pool.answers()
        found = after - before, relay.sent - after
        session.close()
        pool.end()
    return np.array(found)
