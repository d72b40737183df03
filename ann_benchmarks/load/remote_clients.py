"""Clients on the machines of a Dask cluster, for servers that out-run one machine of clients.

The machines' clocks are compared over the network before each run (Cristian's algorithm of 1989): half the
shortest round trip is how far a common start, and the time stamps of two machines, may be off.
"""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.common.dask_cluster import connected, task_error
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.plugin import Answers

CLOCK_LOOKS = 15
LEAD_SECONDS = 0.05  # from the word to the start, beside the longest way there
LOOK_SECONDS = 1.0  # after which a side that waits sees whether the other is still there
CLOSE_SECONDS = 10.0
_DEALING_SEED = 1903

Opener = Callable[[int], Any]  # starts clients; their run can begin at a given time and be aborted


class _Machine:
    """What a worker of the cluster keeps between two calls (an actor, in Dask's words)."""

    clients: Any = None

    def __init__(self, opener: Opener, clients: int) -> None:
        self.clients = opener(clients)
        self._thread = ThreadPoolExecutor(1)

    def __del__(self) -> None:
        if self.clients is not None:
            self.clients.abort()
            self.clients.close()

    def members(self) -> Sequence[Any]:
        return list(getattr(self.clients, "members", []))

    def cores(self) -> tuple[str, int]:
        """The machine's name and its cores."""
        return socket.gethostname(), usable_cores()

    def now(self) -> float:
        return time.perf_counter()

    async def prepare(self, *work: Any) -> None:
        await self._do(self.clients.prepare, *work)

    async def prepare_arrivals(self, *work: Any) -> None:
        await self._do(self.clients.prepare_arrivals, *work)

    async def run(self, start: float) -> float:
        """Run, and return the share of this machine's CPU that was busy, by whomever."""
        psutil.cpu_percent()
        await self._do(self.clients.run, start)
        return psutil.cpu_percent() / 100

    async def answers(self) -> Sequence[Answers]:
        return list(await self._do(self.clients.answers))

    async def close(self) -> None:
        """End them, also in the middle of a run."""
        self.clients.abort()
        await self._do(self.clients.close)

    async def _do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Have it done, while the worker goes on listening; it is ended when its caller has gone."""
        from distributed import get_worker

        doing = asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        while not (await asyncio.wait([doing], timeout=LOOK_SECONDS))[0]:
            if not any(kept is self for kept in get_worker().state.actors.values()):
                self.clients.abort()
        return await doing


class RemoteClients:
    """Clients dealt to the workers of a cluster, as evenly as they go."""

    def __init__(self, opener: Opener, clients: int, scheduler: str) -> None:
        """Start them; UserError where the cluster cannot be used, or a client cannot connect there."""
        self._scheduler = scheduler
        self._stack = ExitStack()
        self._client: Any = None
        self._machines: list[Any] = []
        self._workers: list[str] = []
        self._shares: list[int] = []
        self._running: list[Any] = []
        self._busy_share = 0.0
        self._clock_error = 0.0  # s
        try:
            client = self._client = self._stack.enter_context(connected(scheduler))
            self._workers = self._present()[:clients]
            self._shares = [len(part) for part in np.array_split(np.arange(clients), len(self._workers))]
            futures = [
                client.submit(_Machine, opener, share, actor=True, workers=[worker], pure=False)
                for worker, share in zip(self._workers, self._shares, strict=True)
            ]
            with client.as_current():  # actors find the client only so
                self._machines = self._each([partial(_itself, future) for future in futures])
            self.members = [member for some in self._all("members") for member in some]
            self._cores = dict(self._all("cores"))
        except BaseException:
            self.close()
            raise

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop, as `Clients` says."""
        parts, first = [], 0
        for share in self._shares:
            parts.append((list(orders[first : first + share]), seconds, keeps_ids))
            first += share
        self._running = self._machines
        self._all("prepare", parts)

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Open loop: arrivals are dealt to the machines at random, so that each has a Poisson process, too.

        Within a machine, whichever client is free takes the next.
        """
        shares = np.array(self._shares) / sum(self._shares)
        dealt = np.random.default_rng(_DEALING_SEED).choice(len(shares), len(due), p=shares)
        used = [number for number in range(len(shares)) if (dealt == number).any()]
        self._running = [self._machines[number] for number in used]
        end = float(due[-1]) + patience
        parts = []
        for number in used:
            own = due[dealt == number]
            parts.append((own, numbers[dealt == number], end - float(own[-1]), keeps_ids))
        self._all("prepare_arrivals", parts)

    def run(self) -> None:
        """Start all machines at the same moment, and wait until the last has its last answer."""
        clocks = [self._compare_clock(machine) for machine in self._running]
        self._offsets = [offset for offset, _ in clocks]
        self._clock_error = max(error for _, error in clocks)
        start = time.perf_counter() + LEAD_SECONDS + 2 * self._clock_error
        self._busy_share = max(self._all("run", [(start + offset,) for offset in self._offsets]))

    def answers(self) -> list[Answers]:
        """Return what each client measured, by this machine's clock."""
        given: list[Answers] = []
        for some, offset in zip(self._all("answers"), self._offsets, strict=True):
            given += [_moved(answers, offset) for answers in some]
        return given

    def facts(self) -> dict[str, Any]:
        """Return what is stored of the machines beside the run."""
        settings = [
            {"settings": json.dumps(member.settings), "plan": member.plan} for member in self.members[:1]
        ]
        return {
            **(settings[0] if settings else {}),
            "client_machines": len(self._cores),
            "client_cores": sum(self._cores.values()),
            "client_machines_busy_share": self._busy_share,
            "clients_clock_error": self._clock_error,
        }

    def close(self) -> None:
        """End all of them; those of a worker that has gone have gone with it."""
        present = self._present()
        machines = [
            machine
            for machine, worker in zip(self._machines, self._workers, strict=False)
            if worker in present
        ]
        self._machines = self._running = []
        deadline = time.monotonic() + CLOSE_SECONDS
        with suppress(Exception):  # one may go just now
            closing = [machine.close() for machine in machines]
            for one in closing:
                one.result(timeout=max(deadline - time.monotonic(), 0))
        self._stack.close()

    def _compare_clock(self, machine: Any) -> tuple[float, float]:
        """Return by how much its clock is ahead of ours, and how far that may be off, both in s."""
        looks = []
        for _ in range(CLOCK_LOOKS):
            before = time.perf_counter()
            there = self._each([partial(_called, machine, "now")])[0]
            after = time.perf_counter()
            looks.append((after - before, there - (before + after) / 2))
        way, offset = min(looks)
        return offset, way / 2

    def _all(self, method: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method of each machine at once, and return what each gives."""
        machines = self._running if arguments is not None or method == "answers" else self._machines
        return self._each(
            [
                partial(_called, machine, method, *given)
                for machine, given in zip(machines, arguments or [()] * len(machines), strict=True)
            ]
        )

    def _each(self, begin: Sequence[Callable[[], Any]]) -> list[Any]:
        """Begin all calls and return what each gives; UserError when one fails, or a worker has gone."""
        try:
            calls = [one() for one in begin]
            while waiting := [call for call in calls if not call.done()]:
                with suppress(Exception):  # not yet; or a failure, which is raised next
                    waiting[0].result(timeout=LOOK_SECONDS)
                for call in calls:
                    if call.done():
                        call.result()
                if not waiting[0].done() and (loss := self._loss()):
                    raise loss
            return [call.result() for call in calls]
        except Exception as error:
            if isinstance(error, OSError | ValueError) or "lost" in str(error):
                time.sleep(LOOK_SECONDS)  # in which the scheduler sees that a worker has gone
            said = self._loss() or error
            self.close()
            if isinstance(said, UserError):
                raise said from None
            raise task_error(self._scheduler, "clients failed", said) from None

    def _loss(self) -> UserError | None:
        """What has gone of the cluster, if something has."""
        if self._client is None or self._client.status != "running":
            return UserError(f"the Dask scheduler {self._scheduler} has gone")
        present = self._present()
        lost = [worker for worker in self._workers if worker not in present]
        return UserError(f"the cluster {self._scheduler} has lost its worker {lost[0]}") if lost else None

    def _present(self) -> list[str]:
        if self._client is None or self._client.status != "running":
            return []
        return list(self._client.scheduler_info(n_workers=-1)["workers"])


def _itself(future: Any) -> Any:
    return future


def _called(machine: Any, method: str, *arguments: Any) -> Any:
    """Begin a call; looking up its method fails where the machine has gone."""
    return getattr(machine, method)(*arguments)


def _moved(answers: Any, offset: float) -> Answers:
    due = None if answers.due is None else answers.due - offset
    moved: Answers = replace(answers, due=due, sent=answers.sent - offset, answered=answers.answered - offset)
    return moved
