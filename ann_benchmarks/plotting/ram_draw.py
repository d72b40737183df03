"""What plot.py --tiers does: choose the results on tiers, draw them, write the table beside the picture."""

from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import canonical_name
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.tiers import as_tier_run, fastest, whole_machine

from .draw import check_reached, checked_target, runs_of, to_folder
from .published import read_tiers
from .ram import Line, normalised, ram_lines
from .ram_figure import create_ram_figure
from .ram_table import write_table


def draw_tiers(
    dataset: str,
    count: int,
    output: Path | None,
    target_recall: float | None = None,
    published: str | None = None,
    batch: bool = False,
    recompute: bool = False,
    intervals: bool = True,
    normalise: bool = False,
) -> None:
    """Draw throughput and p99 by available RAM; without `output`, into DATASET-tiers.png in results/ or here.

    `published` names figures of reference/ to lay over (NAME or NAME:TABLE), which makes all of them shares
    of the index's size and of the value at the most RAM, as `normalise` does.
    """
    target = checked_target(target_recall)
    others = read_tiers(published) if published else None
    dataset = canonical_name(dataset)
    runs = runs_of(dataset, count, batch, recompute)
    on_tiers = [found for run in runs if (found := as_tier_run(run))]
    if not on_tiers:
        raise UserError(without_tiers(dataset, count, runs))
    check_reached([found.run for found in on_tiers], target)
    machine = whole_machine(on_tiers)
    lines = ram_lines(on_tiers, target, machine, intervals)
    if not lines:
        raise UserError("nothing to plot: the results on tiers tell neither QPS nor latency")
    shares = normalise or bool(others)
    if shares:
        lines = shares_of(lines)
    name = f"{dataset}-tiers{'-batch' if batch else ''}.png"
    about = [f"k = {count}", *(["batch"] if batch else []), f"target recall {target:g}"]
    title = f"{dataset} ({', '.join(about)})"

    def draw(picture: Path) -> None:
        points = create_ram_figure(lines, picture, title, machine, others, shares)
        write_table(picture.with_suffix(".md"), title, fastest(on_tiers, target), machine, intervals)
        print(f"wrote {picture} and {picture.with_suffix('.md')} (points: {points}, lines: {len(lines)})")

    to_folder(output, name, draw)


def shares_of(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that can be compared with published ones; UserError if there are none."""
    shares = [normalised(line) for line in lines if line.index_size]
    if not shares:
        raise UserError(
            "no result tells the size of its index, by which --published and --normalise compare:"
            " leave them out"
        )
    return shares


def without_tiers(dataset: str, count: int, runs: Sequence[Run]) -> str:
    """Say why there is no picture of tiers, and what to do."""
    if any(run.attrs.get("tier") for run in runs):
        return (
            f"nothing to plot: the tiers of {dataset} with count {count} limit no memory;"
            f" leave out --tiers to draw them as curves"
        )
    return (
        f"nothing to plot: no result of {dataset} with count {count} was measured on a tier;"
        f" run run.py --tiers, such as --tiers mini"
    )
