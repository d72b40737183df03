"""A queue that real clients load: one slot, exponential services, and what it would give without losses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.steady import Queue
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.observed import UndisturbedRuns
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from benchmarks.known import OneSlot, one_server

SERVICES = 20_000  # that are known before: more than a run sends


@dataclass(frozen=True)
class Loaded:
    """Client processes that load one slot to a `share` of what it can serve; services take `service` s."""

    service: float
    share: float
    clients: int

    @property
    def services(self) -> np.ndarray:
        """Seconds of every query, (SERVICES,): the quantiles of an exponential distribution."""
        drawn = -np.log1p(-(np.arange(SERVICES) + 0.5) / SERVICES)
        return np.asarray(drawn * self.service / drawn.mean())

    def needed_seconds(self, runs: int) -> float:
        """How long each of the runs has to be for their percentiles to be those of the steady state."""
        return Queue(self.share / self.service, 1 / self.service, self.clients).run_seconds(runs)

    def measure(self, runs: Sequence[int], seconds: float) -> list[tuple[Measured, np.ndarray]]:
        """Measure runs of these numbers; return with each the latencies of its queries as computed, in s."""
        queries = np.column_stack([np.arange(SERVICES), self.services]).astype(np.float32)
        load = Load(self.clients, seconds=seconds, rate=self.share / self.service)
        plugin = Plugin(OneSlot(self.service, "processes"))
        subject = Subject(plugin, queries, 1, SERVICES, all_repeats=UndisturbedRuns(0))
        found = LoadedPoint(subject, load).measure(Warmup("queries", self.clients), runs, completes=False)
        return [(run, self._computed(load, number, run)) for number, run in zip(runs, found, strict=True)]

    def _computed(self, load: Load, number: int, run: Measured) -> np.ndarray:
        """Compute the latencies of the queries of a run that came after its lead-in."""
        lead_in = run.facts["lead_in_seconds"]
        assert load.rate is not None
        due, numbers = load.arrivals(SERVICES, load.rate, number, lead_in)
        return np.asarray((one_server(due, self.services[numbers]) - due)[due >= lead_in])
