"""How sessions differ, as results show that ought to be equally fast, on tiers with plenty of memory."""

import math
from collections.abc import Hashable, Iterable
from statistics import fmean

from ann_benchmarks.common.numbers import KIB, counted, variance
from ann_benchmarks.statistics.differences import SESSIONS, Noise

from .at_recall import built_index, is_known, speed_of_run
from .runs import Run, number

PLENTY = 4  # times the index and the table: as good as all memory, so that what such tiers differ by is noise
FEWEST_SESSIONS = 4  # fewer do not show by how much they differ


def has_plenty(run: Run) -> bool:
    """Whether RAM is `PLENTY` times the index and the table; not where one of the sizes is unknown."""
    index, table, ram = run.metrics["indexsize"], number(run, "table_size"), number(run, "tier_ram")  # KiB
    if not index > 0 or table is None or ram is None:
        return False
    return ram * (run.series.shards or 1) >= PLENTY * (index + table) * KIB


def session_noise(runs: Iterable[Run]) -> Noise:
    """Return by how much sessions differ: what results show that ought to be alike, else `SESSIONS`.

    Each tier is a session. What is slow in one is slow together, so that more indexes add no freedom.
    """
    alike: dict[Hashable, dict[str, float]] = {}
    for run in runs:
        tier = str(run.attrs.get("tier") or "")
        if is_known(run) and not run.series.is_open and (not tier or has_plenty(run)):
            series = run.series.drop("tier_memory", "tier_method")
            place = run.dataset, run.count, series.label, built_index(run)[1:], run.parameters
            alike.setdefault(place, {})[tier] = speed_of_run(run).level
    groups = [list(levels.values()) for levels in alike.values() if len(levels) >= FEWEST_SESSIONS]
    if not groups:
        return SESSIONS
    return Noise(fmean(map(variance, groups)), max(map(len, groups)) - 1)


def session_text(noise: Noise) -> str:
    """Say by how much sessions differ, and how that is known."""
    share = f"{math.sqrt(noise.variance):.1%}".replace(".0%", "%")
    if noise == SESSIONS:
        return f"sessions are assumed to differ by {share}, as on a shared machine"
    tiers = counted(round(noise.freedom) + 1, "tier")
    return f"sessions differ by {share}, as {tiers} with plenty of memory show"
