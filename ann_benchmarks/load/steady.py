"""How long an open loop runs before it counts, and how long it has to last: from the load on the queue.

A queue that begins empty is shorter than it will be. It forgets its beginning at a rate that is known for the
queue with random arrivals and services: (1 - sqrt(utilisation))^2 times what it can serve (Morse 1955). The
inverse is its relaxation time: 0.4 s for services of 20 ms at 60% of what one server can do, 31 s at 95%.
"""

from dataclasses import dataclass

import numpy as np

from ann_benchmarks.results.length import AMPLE
from ann_benchmarks.results.percentiles import least_relaxations

LEAD_IN = 2.0  # relaxation times, after which percentiles are those of the steady state within noise
LEAST_LEAD_IN = 0.5  # s
MOST_LEAD_IN = 120.0
SERVICES = 10.0  # answers of each client that a lead-in lasts at least
HEAVIEST = 0.97  # utilisation that is assumed at most: what is served is known to a few percent only
OVERLOADED = 1.2  # from here on there is no steady state to wait for
FEWEST = 10  # queries of a third of a run
GROWTH = 1.5


@dataclass(frozen=True)
class Queue:
    """What is known of a queue: arrivals and the most that is served, both a second, and its clients."""

    rate: float
    capacity: float
    clients: int

    @property
    def relaxation_seconds(self) -> float:
        """In how long it forgets its beginning, by a factor of e."""
        utilisation = min(self.rate / self.capacity, HEAVIEST)
        return float(1 / self.capacity / (1 - utilisation**0.5) ** 2)

    @property
    def lead_in_seconds(self) -> float:
        """How long it runs before anything counts."""
        if self.rate > OVERLOADED * self.capacity:
            return LEAST_LEAD_IN
        long = max(LEAD_IN * self.relaxation_seconds, SERVICES * self.clients / self.capacity)
        return min(max(long, LEAST_LEAD_IN), MOST_LEAD_IN)

    def run_seconds(self, runs: int) -> float:
        """How long each of its runs has to count, so that all of them suffice for a 99th percentile."""
        return AMPLE * least_relaxations("p99") * self.relaxation_seconds / runs

    @property
    def facts(self) -> dict[str, float]:
        """What is stored of it."""
        return {"closed_loop_rate": self.capacity, "relaxation_seconds": self.relaxation_seconds}


def is_growing(times: np.ndarray) -> bool:
    """Whether a queue grew, by the latencies in the order of arrival: no query of the last third was quick.

    A queue in a steady state is nearly empty again and again. One that grows for a whole run is four times as
    long at the beginning of its last third as in the middle of its first.
    """
    first, _, last = np.array_split(times, 3)
    return len(first) >= FEWEST and float(last.min()) > GROWTH * float(np.median(first))
