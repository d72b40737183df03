"""A piece of time in which clients ask, writers write, or both, from one start on."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from ann_benchmarks.load.together import common_start

from .rates import Times

TICK_SECONDS = 0.5


def run_together(members: Sequence[Any], tick: Callable[[float], object]) -> float:
    """Run clients and writers that are prepared; return when they started, by perf_counter.

    `tick` is told now and then how many seconds have passed. Whatever fails ends all of them.
    """
    with ThreadPoolExecutor(max(len(members), 1)) as pool:
        start = common_start(sum(map(len, members)))
        running = [pool.submit(member.run, start) for member in members]
        try:
            while wait(running, TICK_SECONDS, FIRST_EXCEPTION).not_done:
                for done in running:
                    if done.done():
                        done.result()
                tick(time.perf_counter() - start)
            for done in running:
                done.result()
        except BaseException:
            for member in members:
                member.abort()  # who waits for one is told
            raise
    return start


def times_of(answers: Sequence[Any], start: float) -> Times:
    """Put together what clients or writers have measured; latency counts from when something was due."""
    ends = np.concatenate([given.answered for given in answers]) - start
    begun = [given.sent if given.due is None else given.due for given in answers]
    seconds = np.concatenate([given.answered for given in answers]) - np.concatenate(begun)
    failed = sum(int(np.count_nonzero(~given.done)) for given in answers if hasattr(given, "done"))
    return Times(ends, seconds, failed)
