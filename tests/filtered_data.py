"""Results of strategies under filters, made without any file."""

import json
from dataclasses import replace

from ann_benchmarks.results.runs import Run

from .report_data import make_run

EVERY_ROUND = {"rounds": "m", "run_rounds": [*range(8)]}


def make_filtered(
    family: str,
    filter: str,
    qps: float,
    recall: float = 0.95,
    complete: float = 1.0,
    selectivity: float | None = None,
    **attrs: object,
) -> Run:
    """Return a result of a strategy under a filter set, whose name says the share of rows if nothing does."""
    share = float(filter.partition(":")[2] or 0.1) if selectivity is None else selectivity
    rates = [qps * (1 + 0.01 * ((7 * i) % 5 - 2)) for i in range(8 if "rounds" in attrs else 3)]
    known = {
        "filter": filter,
        "selectivity": share,
        "completeness_low": max(complete - 0.004, 0.0),
        "completeness_high": min(complete + 0.004, 1.0),
        **attrs,
    }
    run = make_run(family, rates, recall, **known)
    return replace(run, metrics=run.metrics | {"completeness": complete, "candidates": 10 * complete})


def sweep(
    strategies: int = 4, kinds: tuple[str, ...] = ("uniform", "near", "far"), shares=(0.5, 0.1, 0.01, 0.001)
):
    """Return results of strategies that differ in what they are good at, two of them with defaults."""
    names = ("pgvector_exact", "pgvector_hnsw", "pgvector_hnsw_relaxed", "vchord_prefilter")
    more = tuple(f"pgvector_hnsw_partial_large_{i}" for i in range(strategies - 4))
    runs = []
    for kind in kinds:
        hard = {"near": 0.3, "far": 3.0}.get(kind, 1.0)
        for share in shares:
            name = f"{kind}:{share:g}"
            for i, family in enumerate((names + more)[:strategies]):
                if family == "pgvector_exact":
                    runs.append(
                        make_filtered(family, name, 40 / share**0.8, 1.0, is_exact=True, **EVERY_ROUND)
                    )
                elif family == "pgvector_hnsw":
                    for ef, more_rows in ((40, 1), (400, 10)):
                        complete = min(1.0, share * ef / 10 / hard)
                        recall = min(0.99, complete * (0.9 + 0.009 * more_rows))
                        is_default = {"has_default_settings": True} if ef == 40 else {}
                        runs.append(
                            make_filtered(family, name, 900 / more_rows**0.8, recall, complete, **is_default)
                        )
                else:
                    for recall, factor in ((0.92, 1.5), (0.97, 1.0)):
                        qps = (400 + 40 * i) * share**0.15 * factor / hard
                        runs.append(make_filtered(family, name, qps, recall, 1.0, **EVERY_ROUND))
    return runs


def with_deciles(run: Run) -> Run:
    """Return a result with recall, completeness and latency by decile of matches."""
    found = [
        {
            "least": 10 * 3**i, "most": 10 * 3**i + 5, "queries": 50, "recall": 1 - 0.02 * (9 - i),
            "completeness": 1.0, "p50": 0.001 * (i + 1), "p99": 0.004 if i else None,
        }
        for i in range(10)
    ]  # fmt: skip
    return replace(run, attrs=run.attrs | {"deciles": json.dumps(found)})
