"""What a bundle says beside its results: its claims, the true neighbours, and system.json."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import from_json
from ann_benchmarks.data.datasets import get_dataset, is_present
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.comparable import clients
from ann_benchmarks.results.environment import environment_of, environments, names_of
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.results.records import Record
from ann_benchmarks.results.runs import Run, interval

from .files import truth_name
from .manifest import BundledDataset, ClaimedPoint, Manifest

FORMAT = 1
# The parts of a server's description, with the attributes of results that each is made of.
MACHINE = (
    *("cpu", "cores", "memory_bytes", "container_memory_bytes", "container_memory_requested", "disk"),
    *("file_system", "kernel", "numa_nodes"),
)
SOFTWARE = (
    *("server", "server_address", "docker_image", "docker_image_id", "framework_version", "python"),
    *("postgres_version", "pgbench_version"),
)
TIER = "tier_"  # begins the names of what was simulated
SETTINGS = ("settings", "server_settings", "given_settings")  # texts in JSON: {name: value}
README = "README.md"
README_TEXT = """# {title}

Results of a benchmark of vector search, with all that is needed to check them except the data.

{facts}

## Data

{data}

## What is here

- `report/report.html`: the answer, the figures and their intervals
- `results/`, `logs/`: a file for each point, and what runs have logged
- `truth/`: the true neighbours that recall is counted against
- `system.json`: machine, versions, settings and plans, for each server
- `manifest.json`: what is claimed, and the SHA-256 of each file

## How to check it

In a checkout of the project that has made it:

    python -m ann_benchmarks.submission check FOLDER

## What was left out as private

{left_out}

The same placeholder stands for the same text everywhere.
"""
PLAN, PLANS = "plan", ("plans", "planner_plans")


def claimed_points(runs: Iterable[Run], names: Mapping[Path, str], target: float) -> list[ClaimedPoint]:
    """Return a point of each series that reaches the target recall; `names` are the files in the bundle.

    The points of a series have the same clients, tier and filter. A throughput that was given is not a claim.
    """
    fastest: dict[tuple[str, int, str, bool], Run] = {}
    for run in runs:
        recall, qps = run.metrics["recall"], run.metrics["qps"]
        if run.series.is_open or not (target <= recall <= 1 and 0 < qps < math.inf):
            continue
        key = (run.dataset, run.count, run.algorithm, run.batch)
        if key not in fastest or qps > fastest[key].metrics["qps"]:
            fastest[key] = run
    return [claim_of(run, names[run.path]) for _, run in sorted(fastest.items())]


def claim_of(run: Run, file: str) -> ClaimedPoint:
    """Return what is claimed of a result, by the path of its file in the bundle."""
    low, high = interval(run, "qps") or (None, None)
    p99 = run.metrics["p99"]
    return ClaimedPoint(
        dataset=run.dataset,
        series=run.algorithm,
        count=run.count,
        batch=run.batch,
        clients=clients(run),
        recall=float(run.metrics["recall"]),
        qps=float(run.metrics["qps"]),
        file=file,
        qps_low=low,
        qps_high=high,
        p99=float(p99) if math.isfinite(p99) else None,
        filter=run.series.filter,
        tier=str(run.attrs.get("tier", "")),
    )


def fact_line(facts: Mapping[str, Any]) -> str:
    """Return what is known of a server and does not differ between its results."""
    return ", ".join(f"{name} {value}" for name, value in facts.items() if not isinstance(value, list))


def bundle_facts(manifest: Manifest, servers: Sequence[Mapping[str, Any]]) -> dict[str, Iterable[str]]:
    """Return what a reader learns first, by the content of manifest.json and system.json."""
    experiment = f"{manifest.experiment}{', miniature' * manifest.mini}" if manifest.experiment else ""
    machines = (server["machine"] for server in servers)
    return {
        "Made at": [manifest.made],
        "Contact": [manifest.contact or "none given"],
        "Division": [manifest.division],
        "Target recall": [f"{manifest.target_recall:g}"],
        "Experiment": [experiment] if experiment else [],
        "Machine": dict.fromkeys(fact_line(one) for one in machines if isinstance(one, dict) and one),
    }


def dataset_lines(manifest: Manifest) -> list[str]:
    """Return a line for each dataset."""
    return [
        f"{name}: {counted(one.rows, 'row')} of {counted(one.dimension, 'dimension')}, {one.metric},"
        f" {one.queries:,} queries; fingerprint `{one.fingerprint}`"
        for name, one in sorted(manifest.datasets.items())
    ]


def readme(manifest: Manifest, servers: Sequence[Mapping[str, Any]]) -> str:
    """Return the text for somebody who opens the folder, by the content of manifest.json and system.json."""
    facts = bundle_facts(manifest, servers)
    return README_TEXT.format(
        title=manifest.title,
        facts="\n".join(f"- {name}: {value}" for name, values in facts.items() for value in values),
        data="\n".join(f"- {line}" for line in dataset_lines(manifest)),
        left_out="\n".join(f"- {line}" for line in manifest.left_out) or "Nothing was found.",
    )


def write_truths(folder: Path, dataset: str, filters: Iterable[str]) -> BundledDataset:
    """Write the true neighbours of a dataset and of its filter sets into a bundle; describe the dataset.

    Each file has `distances` and `neighbors`, (queries, k), as the dataset has them, and the facts of the
    dataset as attributes; under a filter set also `matches`, (queries,), the number of rows that pass.
    `fingerprint` is `truth_mark` of the `distances` of the file. UserError if the dataset is not here.
    """
    if not is_present(dataset):
        raise UserError(
            f"the dataset {dataset} is not here, and a bundle describes it: copy it here, or make it by:"
            f" python create_dataset.py --dataset {dataset}"
        )
    names = sorted(set(filters) - {""})
    with get_dataset(dataset)[0] as opened:
        rows, dimension = int(opened.rows), int(opened.attrs["dimension"])
        metric = str(opened.attrs["distance"])
        facts = {"name": dataset, "rows": rows, "dimension": dimension, "metric": metric}
        marks = {}
        for filter in ["", *names]:
            truth = opened.truth(filter)
            distances, neighbors = truth.known_distances, truth.neighbors
            marks[filter] = truth_mark(distances)
            path = folder / truth_name(dataset, filter)
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(path, "w") as file:
                file.attrs.update({**facts, "queries": len(neighbors), "fingerprint": marks[filter]})
                file["distances"], file["neighbors"] = distances, neighbors
                if filter:
                    file.attrs["filter"] = filter
                    file["matches"] = opened.filter_set(filter).matches
            queries = len(neighbors)
    return BundledDataset(rows, dimension, metric, queries, marks[""], names)


def system_of(outcomes: Sequence[Run | Record]) -> dict[str, Any]:
    """Return the content of system.json.

    A fact that all results of a server share stands by itself; one that differs is a list of values, each
    with the series that have it. Settings are those that are not the server's defaults. Of the plans of a
    series, one is whole, and all are named with their shares.
    """
    places, groups = environments([environment_of(outcome.attrs) for outcome in outcomes])
    servers = []
    for number, (name, _) in enumerate(zip(names_of(groups), groups, strict=True)):
        its_own = [one for one, place in zip(outcomes, places, strict=True) if place == number]
        servers.append({"name": name, "results": len(its_own), **_server(its_own)})
    return {"format": FORMAT, "servers": servers}


def _server(outcomes: Sequence[Run | Record]) -> dict[str, Any]:
    labelled = [(one.series.label, one.attrs) for one in outcomes]
    every = [attrs for _, attrs in labelled]
    titles = {name: title for attrs in every for name, title in version_names(attrs).items()}
    software = _facts(labelled, dict.fromkeys([*SOFTWARE, *sorted(titles)]))
    tiers = sorted({name for attrs in every for name in attrs if name == "tier" or name.startswith(TIER)})
    found = {
        "machine": _facts(labelled, MACHINE),
        "software": {titles.get(name, name): value for name, value in software.items()},
        "tiers": _facts(labelled, tiers),
    }
    for attribute in SETTINGS:
        known = [(label, from_json(attrs.get(attribute), dict[str, Any]())) for label, attrs in labelled]
        found[attribute] = _facts(known, sorted({name for _, settings in known for name in settings}))
    return found | {"plans": _plans(labelled)}


def _facts(labelled: Sequence[tuple[str, Mapping[str, Any]]], names: Iterable[str]) -> dict[str, Any]:
    """Return each fact that is known: its value, or its values with the series that have them."""
    found = {}
    for name in names:
        values: dict[str, tuple[Any, list[str]]] = {}
        for label, attrs in labelled:
            if name in attrs:
                values.setdefault(str(attrs[name]), (attrs[name], []))[1].append(label)
        if len(values) == 1:
            found[name] = next(iter(values.values()))[0]
        elif values:
            found[name] = [
                {"value": value, "series": sorted(set(labels))} for value, labels in values.values()
            ]
    return found


def _plans(labelled: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return by series the shares of its plans, and one plan as the server has explained it."""
    found: dict[str, Any] = {}
    for label, attrs in labelled:
        of_series = found.setdefault(label, {})
        for name in (PLAN, *PLANS):
            if name in attrs and name not in of_series:
                content: Any = from_json(attrs[name], dict[str, Any]())
                of_series[name] = content or from_json(attrs[name], list[Any]()) or attrs[name]
    return {label: plans for label, plans in sorted(found.items()) if plans}
