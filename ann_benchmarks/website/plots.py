"""What charts show besides the columns of a page: kinds of plot, by ann-benchmarks' names, and writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ann_benchmarks.results.measurement import COUNTS
from ann_benchmarks.results.metrics import all_metrics, pareto_frontier, plot_label, standard_metrics
from ann_benchmarks.results.runs import Run
from ann_benchmarks.views.figures import Style

_IN_PAIRS = {"k-nn", "recall", "epsilon", "largeepsilon", "rel", "qps"}  # the names below combine these
_AGAINST_RECALL = {
    "time": "qps",
    "p50": "p50",
    "p95": "p95",
    "p99": "p99",
    "p999": "p999",
    "buildtime": "build",
    "indexsize": "indexsize",
    "qpssize": "queriessize",
    "candidates": "candidates",
    "distcomps": "distcomps",
}
_AGAINST_RECALL |= {
    name: name for name in standard_metrics if name not in {*_IN_PAIRS, *_AGAINST_RECALL.values()}
}
_QPS_AGAINST = {"eps": "epsilon", "largeeps": "largeepsilon", "rel": "rel"}

# Name to (x metric, y metric).
all_plot_variants = {f"recall/{name}": ("recall", metric) for name, metric in _AGAINST_RECALL.items()} | {
    f"{name}/time": (metric, "qps") for name, metric in _QPS_AGAINST.items()
}
SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def pairs(runs: Sequence[Run], variant: str) -> list[tuple[float, float]]:
    """Return the (x, y) of each result in one kind of plot."""
    x, y = all_plot_variants[variant]
    return [(run.metrics[x], run.metrics[y]) for run in runs]


def plot_title(variant: str) -> str:
    """Return the heading of a kind of plot."""
    return " / ".join(all_metrics[name].description for name in all_plot_variants[variant])


def chart_data(variant: str) -> dict[str, Any]:
    """Return what a kind of plot shows; `better` is 1 for an axis on which more is better, else -1."""
    axes = all_plot_variants[variant]
    return {
        "id": variant.replace("/", "-"),
        "variant": variant,
        "x": axes[0],
        "y": axes[1],
        "better": [1 if all_metrics[name].higher_is_better else -1 for name in axes],
        "title": plot_title(variant),
        "label": plot_label(*axes),
    }


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(character, character) for character in text)


def pgfplots(
    x: str, y: str, series: Iterable[tuple[str, Iterable[tuple[float, float]]]], scatter: bool
) -> str:
    """Return a figure of the series' points; it needs pgfplots, compat=1.16 or newer, in the preamble."""
    lines = [
        r"\begin{figure}",
        r"  \centering",
        r"  \begin{tikzpicture}",
        r"    \begin{axis}[",
        f"      xlabel={{{escape(all_metrics[x].description)}}},",
        f"      ylabel={{{escape(all_metrics[y].description)}}},",
        r"      ymode=log, grid=major, legend pos=outer north east, legend cell align=left,",
        r"    ]",
    ]
    for name, points in series:
        lines.append(rf"      \addplot+[{'only marks' if scatter else 'mark=*'}] coordinates {{")
        lines += [f"        ({x_value:.9g}, {y_value:.9g})" for x_value, y_value in points]
        lines += ["      };", rf"      \addlegendentry{{{escape(name)}}}"]
    lines += [
        r"    \end{axis}",
        r"  \end{tikzpicture}",
        rf"  \caption{{{escape(plot_label(x, y))}}}",
        r"\end{figure}",
    ]
    return "\n".join(lines)


def latex_code(series: Mapping[str, Sequence[Run]], variant: str, scatter: bool) -> str:
    """Return the pgfplots code of a plot and, with `scatter`, below it that of its scatter plot."""
    x, y = all_plot_variants[variant]
    codes = []
    for is_scatter in (False, True) if scatter else (False,):
        chosen = []
        for name, runs in series.items():
            values = pairs(runs, variant)
            if order := pareto_frontier(values, x, y)[is_scatter]:
                chosen.append((name, [values[i] for i in order]))
        codes.append(pgfplots(x, y, chosen, is_scatter))
    return "\n\n".join(codes)


def tails_data(runs: Sequence[Run]) -> list[list[int] | None]:
    """Return of each result the steps of recall, then the queries with all of them, all but one and so on.

    What no query falls short of is left out at the end; None where recall by query is not known.
    """
    found: list[list[int] | None] = []
    for run in runs:
        counts = counts_of(run)
        least = next((place for place, number in enumerate(counts) if number), 0)
        found.append([len(counts) - 1, *reversed(counts[least:])] if counts else None)
    return found


def counts_of(run: Run) -> list[int]:
    """Return how many queries of a result have each recall, nothing where that cannot be used."""
    stored = run.attrs.get(COUNTS)
    if not isinstance(stored, list) or len(stored) < 2 or not all(type(one) is int for one in stored):
        return []
    return stored if min(stored) >= 0 and sum(stored) > 0 else []


def styles_data(styles: dict[str, Style]) -> dict[str, list[int]]:
    """Return each name's colour, marker and dash."""
    return {name: list(asdict(style).values()) for name, style in styles.items()}
