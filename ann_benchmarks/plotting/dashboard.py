"""One picture of what the machine and the server did while a point was built and measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FixedLocator, MaxNLocator, NullLocator
from PIL import Image

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.text import from_json
from ann_benchmarks.monitoring import Monitored, read_monitoring
from ann_benchmarks.monitoring.stored import monitored_from
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.records import SUFFIX, Record, read_record
from ann_benchmarks.views.figures import LIGHT_COLORS

from .canvas import GREY, add_text, picture_path, save

WAITS = ("cpu", "io", "lwlock", "lock", "client", "other")
OTHER = "other"  # left white
MEASURED = ("clients", "answers", "warm-up", "measure", "cool")
WRITTEN = ("inserting", "before", "writing", "after", "vacuum", "vacuumed", "reindex", "reindexed")
Part = list[tuple[str, slice]]  # phases with their samples, one after the other
NAMES = ("load", "build", "measure", "warm-up", "answers", "prewarm", "clients", "start", "cool", *WRITTEN)
COLORS = 64
TINT = 0.17  # how strong the colours of the bands are
ROOM_A_LETTER = 0.0095  # of the width
SHORTEST_SHARE = 0.3  # of the width, for the shorter of the two parts
LOG_TICKS = (1e2, 1e4, 1e6, 1e8)


@dataclass(frozen=True)
class Counters:
    """One of the small pictures, all with the same time axis: counters, and their names in the legend."""

    title: str
    lines: Sequence[tuple[str, str]]
    unit: str  # "bytes", "bytes/s", "%" or that of what is counted
    top: float | None = None
    is_logarithmic: bool = False


def choose_panels(monitored: Monitored) -> list[Counters]:
    """Choose what to show of what there is."""
    columns = monitored.columns

    def lines(*possible: tuple[str, str]) -> list[tuple[str, str]]:
        return [one for one in possible if one[0] in columns]

    def traffic(disk: str) -> float:
        kinds = (columns.get(f"disk.{disk}.{kind}_bytes", np.zeros(1)) for kind in ("read", "write"))
        return float(sum(np.nansum(kind) for kind in kinds))

    where = " (of the whole host)" if monitored.attrs.get("in_container") else ""
    disks = sorted({name.split(".")[1] for name in columns if name.startswith("disk.")})
    of_disks = [
        (f"disk.{disk}.{kind}_bytes", f"{disk} {kind}s")
        for disk in sorted(disks, key=traffic, reverse=True)[:3]
        for kind in ("read", "write")
    ]
    others: dict[str, list[tuple[str, str]]] = {}
    for name, title in from_json(monitored.attrs.get("panels"), dict[str, str]()).items():
        others.setdefault(str(title).replace("$", r"\$"), []).append(
            (name, name.partition(".")[2].replace("_", " "))
        )
    sessions = [(f"postgresql.{wait}_sessions", wait if wait != "cpu" else "on a CPU") for wait in WAITS]
    return [
        Counters(
            f"CPU{where}",
            lines(("machine.cpu_percent", "all cores"), ("machine.busiest_core_percent", "busiest core"),
                  ("machine.iowait_percent", "waiting for disks"), ("machine.steal_percent", "stolen")),
            "%", 100,
        ),
        Counters(
            f"memory{where}",
            lines(("machine.memory_used_bytes", "used"), ("machine.page_cache_bytes", "page cache"),
                  ("machine.memory_shared_bytes", "shared, as buffers")),
            "bytes",
        ),
        Counters(f"disks{where}", lines(*of_disks), "bytes/s"),
        Counters(
            "network of the container" if where else "network",
            lines(("network.received_bytes", "received"), ("network.sent_bytes", "sent")),
            "bytes/s",
        ),
        Counters(
            "PostgreSQL: blocks",
            lines(("postgresql.blocks_hit", "hit"), ("postgresql.blocks_read", "read"),
                  ("postgresql.io_writes", "written"), ("postgresql.io_extends", "added")),
            "1/s", is_logarithmic=True,
        ),
        Counters(
            "PostgreSQL: log and checkpoints",
            lines(("postgresql.wal_bytes", "log"), ("postgresql.checkpoint_bytes", "checkpoints")),
            "bytes/s",
        ),
        Counters("PostgreSQL: sessions, by what they wait for", lines(*sessions), "sessions"),
        *(
            Counters(title, lines(*named), monitored.units.get(named[0][0], ""))
            for title, named in others.items()
        ),
    ]  # fmt: skip


def draw_dashboard(monitored: Monitored, path: Path, title: str) -> None:
    """Draw all panels that show something; UserError without any, or without a file."""
    panels = [panel for panel in choose_panels(monitored) if panel.lines]
    parts = split_parts(monitored)
    if not panels or not parts:
        raise UserError("nothing to draw: no counter was sampled")
    figure = Figure(figsize=(8.2, 0.6 + 1.15 * len(panels)))
    grid = figure.subplots(
        len(panels), len(parts), sharex="col", sharey="row", squeeze=False,
        gridspec_kw={"width_ratios": width_shares(monitored, parts), "hspace": 0.5, "wspace": 0.03},
    )  # fmt: skip
    for panel, row in zip(panels, grid, strict=True):
        for place, (axes, part) in enumerate(zip(row, parts, strict=True)):
            draw_panel(axes, monitored, panel, part)
            decorate(axes, panel, axis_top(monitored, panel, parts), place == 0, place == len(parts) - 1)
    nameless = [name_phases(axes, monitored, part) for axes, part in zip(grid[0], parts, strict=True)]
    if handles := [Patch(color=phase_tint(phase), label=phase) for phase in sorted(set().union(*nameless))]:
        figure.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0, -0.5), handlelength=1.4, ncols=8,
            bbox_transform=grid[-1][0].transAxes, frameon=False, fontsize=7,
        )  # fmt: skip
    for axes in grid[-1]:
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.set_xlabel("seconds from the start of the job", fontsize=8, color=GREY)
    add_text(grid[0][0], title, (0, 1), (0, 30), fontsize=9.5, fontweight="bold")
    save(figure, path)
    if path.suffix.lower() == ".png":
        reduce_colors(path)


def reduce_colors(path: Path) -> None:
    """Store a picture with few colours, in a third of the bytes: many samples make jagged curves."""
    with Image.open(path) as image:
        reduced = image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    with atomic_path(path) as temporary:
        reduced.save(temporary, "png", optimize=True)


def draw_monitoring(result: Path, output: Path | None) -> None:
    """Draw the dashboard of a result file; without `output`, next to it. UserError if it has none."""
    what: Mapping[str, Any]
    if result.name.endswith(SUFFIX):
        record = read_record(result)
        monitored, what = sampled_with(record), vars(record)
    else:
        monitored, what = read_monitoring(result), read_attributes(result)
    if monitored is None:
        raise UserError(f"nothing was sampled for {result}: measure it with run.py --force")
    usual = result.with_name(f"{result.stem}-monitoring.png")
    picture = picture_path(output, usual.name) if output else usual
    draw_dashboard(monitored, picture, f"{what.get('algo', '')} on {what.get('dataset', '')}\n{what['name']}")
    print(f"wrote {picture}")


def sampled_with(record: Record) -> Monitored | None:
    """Return what was sampled while a workload went on, None if nothing was."""
    return monitored_from(record.monitoring) if record.monitoring is not None else None


def split_parts(monitored: Monitored) -> list[Part]:
    """Return the stretches before the point and those of it; between them, other points were measured."""
    stretches = monitored.stretches()
    places = [place for place, (phase, _) in enumerate(stretches) if phase in (*MEASURED, *WRITTEN)]
    first = places[0] if places else len(stretches)
    parts = [stretches[:first], stretches[first : places[-1] + 1] if places else []]
    return [part for part in map(strip_unnamed, parts) if part]


def strip_unnamed(part: Part) -> Part:
    """Leave out what has no name before and after all that has one."""
    named = [place for place, (phase, _) in enumerate(part) if phase != OTHER]
    return part[named[0] : named[-1] + 1] if named else []


def width_shares(monitored: Monitored, parts: Sequence[Part]) -> list[float]:
    """Return the shares of the width; a short part gets more than its time."""
    seconds = [
        monitored.seconds[part[-1][1].stop - 1] - monitored.seconds[part[0][1].start] for part in parts
    ]
    shares = np.clip(np.array(seconds) / max(sum(seconds), 1e-9), SHORTEST_SHARE, 1 - SHORTEST_SHARE)
    return [1.0] if len(parts) == 1 else list(shares / shares.sum())


def draw_panel(axes: Axes, monitored: Monitored, panel: Counters, part: Part) -> None:
    """Draw the phases as bands and the curves over them."""
    for phase, place in part:
        if phase != OTHER:
            start, *_, end = monitored.seconds[place]
            axes.axvspan(start, end, color=phase_tint(phase), lw=0, zorder=0)
    chosen = slice(part[0][1].start, part[-1][1].stop)
    for (column, label), color in zip(panel.lines, LIGHT_COLORS, strict=False):
        values = monitored.columns[column][chosen]
        # A rate is that of the time before it.
        steps = "default" if is_level(monitored, column) else "steps-pre"
        axes.plot(monitored.seconds[chosen], values, color=color, lw=1.3, drawstyle=steps, label=label)
    axes.margins(x=0)


def is_level(monitored: Monitored, column: str) -> bool:
    """Whether a counter is as it is at each moment; a rate is unknown at the begin of a phase."""
    return bool(np.isfinite(monitored.columns[column][monitored.starts]).any())


def axis_top(monitored: Monitored, panel: Counters, parts: Sequence[Part]) -> float:
    """Return the end of the y axis, the same for all parts."""
    places = [place for part in parts for _, place in part]
    values = [monitored.columns[column][place] for column, _ in panel.lines for place in places]
    most = float(np.nanmax(np.nan_to_num(np.concatenate(values))))
    return panel.top or most * (3 if panel.is_logarithmic else 1.08) or 1.0


def decorate(axes: Axes, panel: Counters, top: float, is_first: bool, is_last: bool) -> None:
    """Give a panel its title, axis, and on its right the names of the curves."""
    if panel.is_logarithmic:
        axes.set_yscale("symlog", linthresh=10)
        axes.yaxis.set_major_locator(FixedLocator([0, *(tick for tick in LOG_TICKS if tick < top)]))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(3, integer=panel.unit == "sessions", min_n_ticks=2))
    axes.set_ylim(0, top)
    unit = panel.unit.replace("bytes", "B") if "bytes" in panel.unit else ""
    axes.yaxis.set_major_formatter(EngFormatter(unit, sep=" " if unit else ""))
    axes.tick_params(labelsize=7, color="0.7", labelcolor=GREY, length=2)
    axes.tick_params(axis="y", which="both", left=is_first)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["left"].set_visible(is_first)
    axes.spines[["left", "bottom"]].set_color("0.7")
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="0.8", lw=0.5)
    if is_first:
        unit = f", {panel.unit}" if panel.unit in ("%", "1/s") else ""
        axes.set_title(f"{panel.title}{unit}", loc="left", fontsize=8, color="0.2", pad=3)
    if is_last:
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.005, 1.08), frameon=False, fontsize=7, handlelength=1.4
        )


def name_phases(axes: Axes, monitored: Monitored, part: Part) -> set[str]:
    """Write the names of the phases over their bands; return those that found no room."""
    begin, end = axes.get_xlim()
    room = axes.get_position().width / (end - begin)
    named: set[str] = set()
    for phase, place in part:
        start, *_, stop = monitored.seconds[place]
        if phase != OTHER and (stop - start) * room > ROOM_A_LETTER * len(phase):
            named.add(phase)
            how = {"xycoords": ("data", "axes fraction"), "ha": "center", "fontsize": 7.5, "color": "0.3"}
            add_text(axes, phase, ((start + stop) / 2, 1), (0, 15), **how)
    return {phase for phase, _ in part} - named - {OTHER}


def phase_tint(phase: str) -> tuple[float, float, float]:
    """Return the colour of a phase's bands, the same in every picture."""
    color = LIGHT_COLORS[NAMES.index(phase) % len(LIGHT_COLORS)] if phase in NAMES else "0.3"
    red, green, blue = (1 - TINT * (1 - part) for part in to_rgb(color))
    return red, green, blue
