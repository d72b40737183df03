"""What the reader of the figures should be warned of, each with the results that it concerns."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ann_benchmarks.common.numbers import counted

from .environment import fact_words
from .remarks import ADVICE, CARE, CHECK, MOST_OTHERS, Remark, stored_remarks
from .runs import LeftOut, Run

MOST_NAMED = 3  # results that are named by a warning
FIGURE = re.compile(r"(?<![A-Za-z])\d[\d.,]*")  # not that of p99
MACHINE = ("cpu", "cores", "memory_bytes", "kernel")


def warnings_of(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return each warning with the names of the results that it concerns."""
    found: list[tuple[str, str]] = []
    for run in runs:
        texts = dict.fromkeys(stored_remarks(run.attrs))
        found += [(text, f"{run.algorithm}: {run.parameters}") for text in texts]
    return [*gathered(found), *((text, []) for text in common_warnings(runs))]


def group_by_advice(warned: Iterable[tuple[str, list[str]]]) -> dict[str, list[str]]:
    """Return the texts of warnings by what the reader should do, each with the number of its results."""
    found: dict[str, list[str]] = {advice: [] for advice in ADVICE}
    for text, names in warned:
        advice = text.advice if isinstance(text, Remark) else CARE
        found[advice].append(f"{text} ({counted(len(names), 'result')})" if names else text)
    return {advice: texts for advice, texts in found.items() if texts}


def gathered(found: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return each kind of (text, name) once, with all of its names.

    Texts that differ in figures alone are one kind. It has the worst text, and the name of that one comes
    first. Of texts without severity, the worst has the largest figures from the last one, which is mostly
    what is advised: it then suffices for all.
    """

    def badness(item: tuple[str, str]) -> list[float]:
        if isinstance(item[0], Remark) and item[0].severity is not None:
            return [item[0].severity]
        return [float(figure.replace(",", "").rstrip(".") or 0) for figure in FIGURE.findall(item[0])][::-1]

    kinds: dict[str, list[tuple[str, str]]] = {}
    for text, name in found:
        kinds.setdefault(FIGURE.sub("#", text), []).append((text, name))
    gathered_kinds = []
    for group in kinds.values():
        worst = max(group, key=badness)
        others = [name for item in group if item is not worst for name in item[1:]]
        gathered_kinds.append((worst[0], [worst[1], *others]))
    return gathered_kinds


def left_out_warnings(left_out: LeftOut) -> Iterator[tuple[str, list[str]]]:
    """Yield why files were left out, with their names."""
    reasons: dict[str, list[str]] = {}
    for path, error in left_out.items():
        reasons.setdefault(str(error).removeprefix(f"{path} "), []).append("/".join(path.parts[-2:]))
    for reason, names in reasons.items():
        yield Remark(f"left out of all that follows: {reason}", advice=CHECK), names


def server_warnings(runs: Iterable[Run]) -> Iterator[str]:
    """Yield in what the servers of results differ, apart from releases that name their series."""
    known: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, value in run.facts.items():
            if name not in ("cpu", "cores", "memory") and value != run.series.version:
                known.setdefault(name, {})[fact_words(name, value)] = None
    if differing := [" and ".join(sorted(values)) for values in known.values() if len(values) > 1]:
        yield (
            f"the results come from several servers ({'; '.join(differing)}): they may explain the"
            " differences"
        )


def common_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what no single result shows."""
    yield from server_warnings(runs)
    machines = {tuple(run.attrs.get(name) for name in MACHINE) for run in runs}
    if len(machines) > 1:
        yield (
            f"the results come from {len(machines)} machines, or from one that changed (CPU, cores, memory or"
            " kernel): the machine may explain the differences"
        )
    if again := sum(int(run.attrs.get("runs_measured_again") or 0) for run in runs):
        made = sum(int(run.attrs.get("run_count") or 1) for run in runs)
        yield (
            f"other programs took more than {MOST_OTHERS:.0%} of the machine's CPUs in some runs: {again:,}"
            f" were left out and measured again; {made:,} are counted"
        )
    if any(run.attrs.get("truth") is None for run in runs):
        yield "some results do not state which true neighbours they were measured against"
