"""A thread that samples while a job goes on, and knows in which phase it is; few samples are kept."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ann_benchmarks.plugin import ServerMonitor

from . import machine

INTERVAL_SECONDS = 1.0
MOST_SAMPLES = 240  # of a phase; with one more, every second one is dropped
CLOSE_SECONDS = 0.1  # a rate over less says little: the machine's own clocks tick 100 times a second
PAUSE_CPU, PAUSE_WALL = 200, 20  # times what a sample takes, is the least time to the next: 0.5% of a core
BOUNDARY_SECONDS = 0.5  # a new phase waits so long for its first sample
STOP_SECONDS = 2.0
OTHER = "other"  # the phase between those that have a name


@dataclass(frozen=True)
class Sample:
    """One moment, in s from the start of the job.

    `totals` are counted since something began and become rates; `levels` are as they are. `cores` is
    (cores, 4): seconds busy, waiting for a disk, taken away by a hypervisor, and in all.
    """

    seconds: float
    totals: dict[str, float] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    cores: np.ndarray | None = None


class Stretch:
    """A phase from its begin to its end. Its first sample is the last one of the phase before it."""

    def __init__(self, phase: str, interval: float, first: Sample | None = None) -> None:
        """Begin it; samples come every `interval` s at first."""
        self.phase, self.interval = phase, interval
        self.samples = [] if first is None else [first]

    def add(self, sample: Sample) -> None:
        """Keep a sample; when they are too many, every second one, and fewer from then on."""
        self.samples.append(sample)
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[1::2]  # the first and the last stay
            self.interval *= 2

    def end(self, sample: Sample) -> None:
        """Keep the last sample, in place of one that was taken just before."""
        if len(self.samples) > 1 and sample.seconds - self.samples[-1].seconds < CLOSE_SECONDS:
            self.samples.pop()
        self.add(sample)

    @property
    def seconds(self) -> float:
        """How long it is known to have lasted."""
        return self.samples[-1].seconds - self.samples[0].seconds if self.samples else 0.0


@dataclass(frozen=True)
class Recording:
    """Stretches of phases one after the other, and the CPU seconds that recording them took here."""

    stretches: Sequence[Stretch] = ()
    cpu_seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)  # attributes of what is stored

    def prepend(self, before: "Recording") -> "Recording":
        """Return both as one."""
        stretches = [*before.stretches, *self.stretches]
        return Recording(stretches, before.cpu_seconds + self.cpu_seconds, self.facts)

    @property
    def named(self) -> "Recording":
        """It without the stretches of no phase."""
        return Recording([one for one in self.stretches if one.phase != OTHER], self.cpu_seconds, self.facts)


class Phases(Protocol):
    """Learns what a job is doing."""

    def enter(self, phase: str) -> None:
        """Begin a phase, which ends the one before it."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Be in a phase for as long as the block."""

    def cut(self) -> Recording:
        """Return what was recorded since the last cut."""

    def close(self) -> None:
        """End it."""


class NoMonitor:
    """Samples nothing."""

    def enter(self, phase: str) -> None:
        """Do nothing."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def cut(self) -> Recording:
        """Return nothing."""
        return Recording()

    def close(self) -> None:
        """Do nothing."""


class Monitor:
    """Samples every second or so, and whenever a phase begins; less often in a long phase.

    What is not known is left out; nothing raises, for a run is worth more than what is seen of it.
    """

    def __init__(
        self,
        server: ServerMonitor | None = None,
        in_container: bool = False,
        interval: float = INTERVAL_SECONDS,
        began: float | None = None,
    ) -> None:
        """Begin, in a phase without a name. None: the algorithm is in this process, without a server.

        `began` is what seconds are counted from, a reading of perf_counter; None: now.
        """
        self._server, self._in_container, self._interval = server, in_container, interval
        self._began = time.perf_counter() if began is None else began
        self._changed = threading.Condition()
        self._current = Stretch(OTHER, interval)
        self._stretches = [self._current]
        self._wanted: str | None = None  # the phase that begins with the next sample
        self._is_closing = False
        self._cpu_seconds = self._cpu_seconds_cut = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True, name="monitor")
        self._thread.start()

    def enter(self, phase: str) -> None:
        """Begin a phase, with a sample that ends the one before it. Waits for a server only so long."""
        with self._changed:
            if not self._thread.is_alive():
                return
            self._wanted = phase
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self._wanted is None, BOUNDARY_SECONDS):
                self._wanted = None
                self._begin(phase)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Be in a phase for as long as the block, and then in the one before it."""
        before = self._current.phase
        self.enter(name)
        try:
            yield
        finally:
            self.enter(before)

    def cut(self) -> Recording:
        """Return what was recorded since the last cut; the phase that goes on is in this one and the next."""
        with self._changed:
            stretches = [s for s in self._stretches if s.seconds >= CLOSE_SECONDS]
            self._stretches = []
            self._begin(self._current.phase, self._current.samples[-1] if self._current.samples else None)
            used, self._cpu_seconds_cut = self._cpu_seconds - self._cpu_seconds_cut, self._cpu_seconds
        facts: dict[str, Any] = {"in_container": self._in_container}
        if self._server is not None:
            facts["is_local"] = self._server.is_local
        return Recording(stretches, used, facts)

    def close(self) -> None:
        """End it, unless the server does not answer: then the thread is left to wait for it."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(STOP_SECONDS)
        if self._server is not None and not self._thread.is_alive():
            self._server.close()

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or self._wanted is not None, pause)
                if self._is_closing:
                    return
            wall, cpu = time.perf_counter(), time.thread_time()
            sample = self._sample()
            wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
            with self._changed:
                self._cpu_seconds += cpu
                self._keep(sample)
                pause = max(self._current.interval, PAUSE_CPU * cpu, PAUSE_WALL * wall)

    def _keep(self, sample: Sample) -> None:
        if self._wanted is None:
            self._current.add(sample)
        else:
            self._current.end(sample)
            self._begin(self._wanted, sample)
            self._wanted = None
            self._changed.notify_all()

    def _begin(self, phase: str, first: Sample | None = None) -> None:
        self._current = Stretch(phase, self._interval, first)
        self._stretches.append(self._current)

    def _sample(self) -> Sample:
        stated: dict[str, float] = {}
        levels: frozenset[str] = frozenset()
        is_local = True
        with suppress(Exception):
            if self._server is not None:
                stated, levels = self._server.sample(), self._server.levels
                is_local = self._server.is_local
        sample = Sample(
            time.perf_counter() - self._began,
            {name: value for name, value in stated.items() if name not in levels},
            {name: value for name, value in stated.items() if name in levels},
            machine.cpu_times() if is_local else None,
        )
        if is_local:
            sample.totals.update(machine.totals())
            sample.levels.update(machine.levels())
        return sample
