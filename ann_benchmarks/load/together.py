"""What clients need that ask at the same time: one start, one end, and no garbage collector meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ann_benchmarks.plugin import Clients

from .one_client import clock

_LEAD_SECONDS = 0.002  # from the word to the start: enough for it to reach every client
_LEAD_A_CLIENT = 0.0005


def common_start(clients: int) -> float:
    """Return the moment at which so many clients start that are told it now."""
    return clock() + _LEAD_SECONDS + _LEAD_A_CLIENT * clients


@contextmanager
def closed_after_an_error(clients: Clients) -> Iterator[None]:
    """End all of them if something fails."""
    try:
        yield
    except BaseException:
        clients.close()
        raise


@contextmanager
def no_collector() -> Iterator[None]:
    """Collect garbage now, and not before the end: a full collection would show in the latencies."""
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
