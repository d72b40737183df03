"""What the machine and the server did during a measurement: panels over time, and means by phase."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB, figure_text
from ann_benchmarks.monitoring import Monitored

from .figures import Axis, Chart, Curve, Panel, Style
from .parts import Table, known_table
from .points import Point

OTHER = "other"  # between phases
# What belongs to a point; the phases before are those of its index.
POINT_PHASES = (
    *("clients", "answers", "warm-up", "measure", "cool"),
    *("inserting", "before", "writing", "after", "vacuum", "vacuumed", "reindex", "reindexed"),
)
WAITS = ("io", "lwlock", "lock", "client", "other")
MOST_DISKS = 6  # counters
LONGEST_TITLE = 17  # of a line beside an axis
SIZES = {1: (7.0, 1.05), 2: (3.6, 1.05)}  # of a panel in inches, by the number of columns
HOST_NOTE = "CPU, memory and disks are those of the whole host"
# A column's heading, the counters that it adds up, and the unit that it writes them in.
ACTIVITY = (
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


@dataclass(frozen=True)
class Counters:
    """What a row of panels shows: counters by the names that the legend has for them, in units."""

    title: str
    names: Mapping[str, str]
    unit: float = 1


MACHINE = (
    Counters("CPU (%)", {
        "machine.cpu_percent": "all cores", "machine.busiest_core_percent": "busiest core",
        "machine.iowait_percent": "waiting for disks", "machine.steal_percent": "stolen",
    }),
    Counters("Memory (GB)", {
        "machine.memory_used_bytes": "used", "machine.page_cache_bytes": "page cache",
        "machine.memory_shared_bytes": "shared, as buffers",
    }, GB),
    Counters("Network (MB/s)", {"network.received_bytes": "received", "network.sent_bytes": "sent"}, MB),
)  # fmt: skip
SERVER = (
    Counters("Blocks (1/s)", {
        "postgresql.blocks_hit": "hit", "postgresql.blocks_read": "read",
        "postgresql.io_writes": "written", "postgresql.io_extends": "added",
    }),
    Counters("Log (MB/s)", {
        "postgresql.wal_bytes": "log", "postgresql.checkpoint_bytes": "checkpoints",
    }, MB),
    Counters("Sessions", {
        "postgresql.cpu_sessions": "on a CPU",
        **{f"postgresql.{wait}_sessions": f"wait: {wait}" for wait in WAITS},
    }),
)  # fmt: skip


def monitoring_chart(sampled: Monitored, title: str, subtitle: str = "") -> Chart:
    """Return a row of panels for all counters of a kind, before the point on the left and of it on the right.

    UserError where nothing was sampled.
    """
    parts, panels = split_parts(sampled), []
    for row, counters in enumerate(choose_counters(sampled)):
        for part in parts:
            names = counters.names if part is parts[-1] else dict.fromkeys(counters.names, "")
            where = slice(part[0][1].start, part[-1][1].stop)
            curves = []
            for color, (column, name) in enumerate(names.items()):
                values = sampled.columns[column][where] / counters.unit
                points = curve_points(sampled.seconds[where], values)
                curves.append(Curve(name, points, Style(color, 0, 0), "thin"))
            bands = [
                (sampled.seconds[place][0], sampled.seconds[place][-1], "" if row else phase)
                for phase, place in part
                if phase != OTHER
            ]
            x = Axis("Seconds from the start of the job", "linear")
            y = Axis(textwrap.fill(counters.title, LONGEST_TITLE), "linear", from_zero=True)
            panels.append(Panel(curves, x, y, bands=bands))
    if not panels:
        raise UserError("nothing to draw: no counter was sampled")
    note = HOST_NOTE if sampled.attrs.get("in_container") else ""
    size = SIZES[len(parts)]
    return Chart(title, panels, len(parts), "", subtitle, note, size, is_grid=True, has_legends=True)


def curve_points(seconds: np.ndarray, values: np.ndarray) -> list[Point]:
    """Return the points of a curve; a rate, which is not known at a first sample, is that of the next one."""
    points: list[Point] = []
    following = np.append(values[1:], np.nan)
    for x, y, next_y in zip(seconds.tolist(), values.tolist(), following.tolist(), strict=True):
        points.append(Point(x, y))
        if np.isnan(y) and not np.isnan(next_y):  # after a gap, so that a stretch of two samples is a line
            points.append(Point(x, next_y))
    return points


def choose_counters(sampled: Monitored) -> Iterator[Counters]:
    """Yield what there is to show: of the machine, of its busiest disks, of the server."""
    columns = sampled.columns
    disks = [name for name in columns if re.fullmatch(r"disk\..*\.(read|write)_bytes", name)]
    busiest = sorted(disks, key=lambda name: -float(np.nansum(columns[name])))[:MOST_DISKS]
    of_disks = {name: " ".join(name.removesuffix("_bytes").split(".")[1:]) + "s" for name in busiest}
    for counters in [*MACHINE, Counters("Disks (MB/s)", of_disks, MB), *SERVER]:
        known = {name: text for name, text in counters.names.items() if name in columns}
        if known:
            yield Counters(counters.title, known, counters.unit)


def split_parts(sampled: Monitored) -> list[list[tuple[str, slice]]]:
    """Return the stretches before the point and those of it; between them, other points were measured."""
    stretches = sampled.stretches()
    places = [place for place, (phase, _) in enumerate(stretches) if phase in POINT_PHASES]
    first, last = (places[0], places[-1]) if places else (len(stretches), 0)
    found = []
    for part in (stretches[:first], stretches[first : last + 1]):
        named = [place for place, (phase, _) in enumerate(part) if phase != OTHER]
        found += [part[named[0] : named[-1] + 1]] if named else []
    return found


def activity_table(sampled: Monitored, caption: str) -> Table:
    """Return a row for each phase, in the order in which they began: its seconds, and the means."""
    parts = {
        phase: [where for name, where in sampled.stretches() if name == phase] for phase in sampled.phases
    }
    seconds = [sum(float(np.ptp(sampled.seconds[where])) for where in own) for own in parts.values()]
    columns = {"Phase": list(parts), "Seconds": [figure_text(each) for each in seconds]}
    for heading, pattern, unit in ACTIVITY:
        if added := [column for name, column in sampled.columns.items() if re.fullmatch(pattern, name)]:
            values = np.sum(added, axis=0) / unit
            columns[heading] = [figure_text(mean(sampled.seconds, values, own)) for own in parts.values()]
    return known_table(columns, caption, ("Phase",))


def mean(seconds: np.ndarray, values: np.ndarray, parts: Sequence[slice]) -> float:
    """Return the mean over time; a rate is that since the sample before. NaN where nothing is known."""
    spans = np.concatenate([np.diff(seconds[where]) for where in parts])
    after = np.concatenate([values[where][1:] for where in parts])
    known = np.isfinite(after) & (spans > 0)
    return float(np.average(after[known], weights=spans[known])) if known.any() else float("nan")
