"""Activity of the machine and the server by phase: the mean of each counter over the time of the phase."""

import re
from collections.abc import Sequence

import numpy as np

from ann_benchmarks.common.numbers import MB, figure_text
from ann_benchmarks.monitoring.stored import Monitored

from .parts import Table, known_table

# A column's heading, the counters that it adds up, and the unit that it writes them in.
COUNTERS = (
    ("CPU (%)", r"machine\.cpu_percent", 1),
    ("I/O wait (%)", r"machine\.iowait_percent", 1),
    ("Read (MB/s)", r"disk\..*\.read_bytes", MB),
    ("Written (MB/s)", r"disk\..*\.write_bytes", MB),
    ("Blocks hit/s", r"postgresql\.blocks_hit", 1),
    ("Blocks read/s", r"postgresql\.blocks_read", 1),
    ("Sessions on a CPU", r"postgresql\.cpu_sessions", 1),
    ("Waiting for I/O", r"postgresql\.io_sessions", 1),
    ("For locks", r"postgresql\.(lw)?lock_sessions", 1),
    ("For clients", r"postgresql\.client_sessions", 1),
)


def activity_table(sampled: Monitored, caption: str) -> Table:
    """Return a row for each phase, in the order in which they began: its seconds, and the means."""
    parts = {
        phase: [where for name, where in sampled.stretches() if name == phase] for phase in sampled.phases
    }
    seconds = [sum(float(np.ptp(sampled.seconds[where])) for where in own) for own in parts.values()]
    columns = {"Phase": list(parts), "Seconds": [figure_text(each) for each in seconds]}
    for heading, pattern, unit in COUNTERS:
        if added := [column for name, column in sampled.columns.items() if re.fullmatch(pattern, name)]:
            values = np.sum(added, axis=0) / unit
            columns[heading] = [figure_text(_mean(sampled.seconds, values, own)) for own in parts.values()]
    return known_table(columns, caption, ("Phase",))


def _mean(seconds: np.ndarray, values: np.ndarray, parts: Sequence[slice]) -> float:
    """Return the mean over time; a rate is that since the sample before. NaN where nothing is known."""
    spans = np.concatenate([np.diff(seconds[where]) for where in parts])
    after = np.concatenate([values[where][1:] for where in parts])
    known = np.isfinite(after) & (spans > 0)
    return float(np.average(after[known], weights=spans[known])) if known.any() else float("nan")
