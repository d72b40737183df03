"""What a report can show, a row a kind: its picture, its table, and when it says something of results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.comparable import clients, is_on_tier
from ann_benchmarks.results.filtered import read_deciles
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run
from ann_benchmarks.views.builds import build_table
from ann_benchmarks.views.points import result_table
from ann_benchmarks.views.servers import server_tables
from ann_benchmarks.views.tiers import tier_runs
from ann_benchmarks.views.workloads import insert_table, write_tables

from .content import Overlay, Shown, part_blocks
from .document import Block
from .facts import MONITORED, activity_tables, dashboard_pictures
from .pictures import (
    build_picture,
    client_picture,
    decile_picture,
    decile_table,
    filter_picture,
    filter_table,
    frontier_picture,
    insert_picture,
    latency_picture,
    server_pictures,
    tier_blocks,
    tier_picture,
    write_picture,
)

View = Callable[[Shown], list[Block]]
Worth = Callable[[Sequence[Run], Sequence[Record]], bool]
OVERLAY_KINDS: Mapping[str, type] = {"published": str, "where": Mapping}
OVER, SHARES = ("published", "where"), ("published",)


@dataclass(frozen=True)
class ReportKind:
    """Something that can be shown; `overlay` are the options that its picture takes for published figures.

    Without `is_worth` it is shown on request alone.
    """

    picture: View | None = None
    table: View | None = None
    is_worth: Worth = lambda runs, records: False
    overlay: Sequence[str] = ()


def any_run(says: Callable[[Run], Any]) -> Worth:
    """Return what tells whether any result says something."""
    return lambda runs, records: any(map(says, runs))


def any_record(workload: str) -> Worth:
    """Return what tells whether there is a workload of this kind."""
    return lambda runs, records: any(record.workload == workload for record in records)


def has_frontier(runs: Sequence[Run], records: Sequence[Record]) -> bool:
    """Whether there are results off tiers, or only such as the picture of tiers cannot show."""
    return any(not is_on_tier(run) for run in runs) or (bool(runs) and not has_tiers(runs, records))


def has_tiers(runs: Sequence[Run], records: Sequence[Record]) -> bool:
    """Whether results belong to an amount of memory."""
    return bool(tier_runs(runs))


def is_filtered(run: Run) -> bool:
    """Whether a result in a closed loop has a filter."""
    return bool(run.series.filter) and not run.series.is_open


def has_deciles(run: Run) -> bool:
    """Whether a filtered result has figures by decile of matches."""
    return is_filtered(run) and bool(read_deciles(run))


def has_several_clients(runs: Sequence[Run], records: Sequence[Record]) -> bool:
    """Whether there are results off tiers with several numbers of clients."""
    return len({clients(run) for run in runs if not is_on_tier(run)}) > 1


def is_monitored(runs: Sequence[Run], records: Sequence[Record]) -> bool:
    """Whether samples of the machine were stored with something."""
    return any(MONITORED in run.attrs for run in runs) or any(one.monitoring for one in records)


KINDS = {
    "frontier": ReportKind(frontier_picture, None, has_frontier, OVER),
    "tiers": ReportKind(tier_picture, tier_blocks, has_tiers, SHARES),
    "filters": ReportKind(filter_picture, filter_table, any_run(is_filtered)),
    "deciles": ReportKind(decile_picture, decile_table, any_run(has_deciles)),
    "clients": ReportKind(client_picture, None, has_several_clients, OVER),
    "latency": ReportKind(latency_picture, None, any_run(bool)),
    "builds": ReportKind(
        build_picture,
        lambda shown: [build_table(shown.runs, shown.title)],
        any_run(lambda run: run.metrics["build"] > 0),
    ),
    "shards": ReportKind(server_pictures, lambda shown: part_blocks(server_tables(shown.runs, shown.target))),
    "dashboard": ReportKind(dashboard_pictures, None, is_monitored),
    "activity": ReportKind(None, activity_tables),
    "inserts": ReportKind(
        insert_picture,
        lambda shown: [insert_table(shown.records, shown.title)],
        any_record("inserts"),
        OVER,
    ),
    "writes": ReportKind(write_picture, lambda shown: [*write_tables(shown.records)], any_record("writes")),
    "points": ReportKind(None, lambda shown: [result_table(shown.runs, shown.title)], any_run(bool)),
}


def views(what: str) -> dict[str, View]:
    """Return what makes each picture, or each table, by the names of their kinds."""
    return {name: view for name, kind in KINDS.items() if (view := getattr(kind, what)) is not None}


def worth_showing(what: str, runs: Sequence[Run], records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the requests for the pictures, or the tables, that say something about these results."""
    return [{"kind": name} for name in views(what) if KINDS[name].is_worth(runs, records)]


def make(what: str, request: Mapping[str, Any], shown: Shown) -> list[Block]:
    """Make the "picture" or the "table" that is requested, or a note that says why it cannot be made.

    UserError names an unknown kind or option.
    """
    name, known_views = str(request.get("kind")), views(what)
    if name not in known_views:
        raise UserError(f"unknown kind of {what} '{name}': choose from {', '.join(known_views)}")
    kinds = {option: OVERLAY_KINDS[option] for option in KINDS[name].overlay if what == "picture"}
    given = {option: value for option, value in request.items() if option != "kind"}
    for option, value in given.items():
        if option not in kinds:
            known = f"it has {', '.join(kinds)}" if kinds else "it has none"
            raise UserError(f"the {what} '{name}' has no option '{option}': {known}")
        if not isinstance(value, kinds[option]):
            raise UserError(f"the option '{option}' of the {what} '{name}' cannot be {value!r:.40}")
    # Figures of others are laid over a copy of the plain picture.
    drawn = [replace(shown, stem=f"{shown.stem}plain-"), replace(shown, overlay=Overlay(**given))]
    blocks: list[Block] = []
    for each in drawn if given.get("published") else [shown]:
        try:
            blocks += known_views[name](each)
        except UserError as error:
            why = part_blocks([f"No {what} of {name}: {error}."])
            blocks += [block for block in why if block not in blocks]
    return blocks
