"""Several clients of one server that send queries at the same time: how they are started, run and ended."""

import math
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..errors import PostgresError
from ..servers import machine
from ..session.session import PayloadSize
from ..session.statement import QueryStatement
from .group import MOST_A_SECOND, ProcessGroup
from .member import EVEN, own_places
from .serving import HAS_EPOLL, become_clients
from .work import ARRIVAL, ClientRun, InOrder, WhenDue, write_all, write_parameters


class ClientPool(ProcessGroup):
    """A number of connections, each with the statement prepared and its plan checked, and their processes."""

    def __init__(
        self,
        statement: QueryStatement,
        queries: Sequence[Any] | np.ndarray,
        clients: int,
        rests: bool = False,
        processes: int | None = None,
    ) -> None:
        """Start them, and return when all are ready; `queries` are what the statement encodes.

        With `rests`, close() ends the sessions only, and connect() begins the next ones. `processes` is the
        number that the clients are dealt to; by default it follows from that of the cores.
        """
        self.queries, self._rests, self._statement = queries, rests, statement
        self._sent: list[int] = []  # queries of each client in the last run
        self._payload = PayloadSize()  # of the answers of the last run that were kept
        self._arrivals = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        with tempfile.TemporaryFile() as parameters:
            write_parameters(parameters.fileno(), queries, statement.encoder())
            files = [self._arrivals.fileno(), parameters.fileno()]
            dealt = np.array_split(np.arange(clients), processes or processes_for(clients))
            super().__init__([*map(len, dealt)], become_clients, files, files, statement)

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to send the queries numbered in orders[i]; returns when all are ready.

        With `seconds`, each goes through its order again and again for that time.
        """
        slots = self._slots() if keeps_ids else 0
        own = own_places(orders) if keeps_ids else [np.empty(0, np.int64)] * len(orders)
        most = None if seconds is None else round(seconds * MOST_A_SECOND) + 1
        self._prepare([
            InOrder(np.asarray(order), seconds, places, slots, most or len(order))
            for order, places in zip(orders, own, strict=True)
        ])  # fmt: skip

    def prepare_arrivals(self, due: np.ndarray, numbers: np.ndarray, patience: float) -> None:
        """Open loop: query numbers[i] is to be sent due[i] s after the start, by whichever client is free.

        What is not sent `patience` s after the last was due, is not sent any more.
        """
        arrivals = np.empty(len(due), dtype=[("due", "f8"), ("number", "i8")])
        assert arrivals.itemsize == ARRIVAL.size
        arrivals["due"], arrivals["number"] = due, numbers
        _, first = np.unique(numbers, return_index=True)
        arrivals["number"][first] = ~arrivals["number"][first]
        os.ftruncate(self._arrivals.fileno(), 0)
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        write_all(self._arrivals.fileno(), arrivals.tobytes())
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        self._prepare([WhenDue(float(due[-1]) + patience, self._slots(), len(due))] * len(self))

    def answers(self) -> list[ClientRun]:
        """Return what each client measured in the last run; to be called once after each."""
        runs, self._payload = [], PayloadSize()
        for book, work, report in self._reports():
            read = book.read(work.room, report.count)
            self._statement.check_rows(int(read.rows.max(initial=0)))
            is_closed = isinstance(work, InOrder)
            (numbers, ids, weights), payload = report.result
            self._payload.total += payload.total
            self._payload.answers += payload.answers
            sent = np.resize(work.order, report.count) if is_closed else read.numbers
            times = None if is_closed else read.due, read.sent, read.answered
            runs.append(ClientRun(sent, *times, read.rows, numbers, ids, weights, report.cpu_seconds))
        self._sent = [len(run.sent) for run in runs]
        return runs

    def facts(self) -> dict[str, Any]:
        """Return what is stored with the last run: the mean payload, and the queries of each server."""
        return self._payload.facts() | self._statement.facts_of_clients(self._sent)

    def _identities(self, identity: QueryStatement) -> Sequence[QueryStatement]:
        self._statement = identity
        return identity.split_for_clients(len(self))

    def _place_of(self, member: int) -> str:
        return self._statement.place_of_client(member)

    def _slots(self) -> int:
        return math.ceil(EVEN * len(self.queries) / len(self))

    def close(self) -> None:
        """End the sessions; the processes, too, unless they rest."""
        if self._rests and len(self):
            with suppress(PostgresError):  # then they have ended
                self.disconnect()
        else:
            self.end()

    def end(self) -> None:
        """End all of them: a client ends when its pipe does."""
        super().end()
        self._arrivals.close()


def processes_for(clients: int) -> int:
    """Return how many processes this number of clients has: one each, but not more than there are cores.

    More processes cost CPU: each answer would wake a process, and its code has left the CPU's caches.
    """
    return min(clients, machine.cores()) if HAS_EPOLL else clients
