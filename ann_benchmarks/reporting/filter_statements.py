"""What an answer says of filters: which strategy for which share of rows, and what the defaults lose."""

from collections.abc import Sequence
from itertools import groupby

from ann_benchmarks.common.numbers import percent_text, three_digits
from ann_benchmarks.common.text import shortened
from ann_benchmarks.plotting.chosen import filtered_of_one_load
from ann_benchmarks.results.filtered import (
    AHEAD,
    ALIKE,
    ALONE,
    COMPLETE,
    FASTEST,
    MEASURED,
    NONE,
    REGRET_PLAN,
    FastestStrategy,
    UnderFilter,
    by_kind,
    is_chance,
    judged_together,
    regret,
    rows_returned,
    under_filters,
)
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.parts import Statement, listed

LARGE_REGRET = 1.5  # that a reader should know
MOST_REGRETS = 5
HOW = {FASTEST: "is the fastest", MEASURED: "is the fastest as measured", AHEAD: "is ahead"}
OF_AHEAD = (
    "Ahead means that the strategies were measured once, at different times, or in too few rounds: the same"
    " rounds (run.py --rounds) compare more surely."
)


def filter_statements(runs: Sequence[Run], target: float, error_rate: float) -> list[Statement]:
    """Return what filtered results say, of the load and the server with the most points; nothing without any.

    All of it together errs at the rate.
    """
    single = [run for run in runs if not run.batch]
    choice = filtered_of_one_load(single or runs)
    found = under_filters(choice.runs, target)
    if not found:
        return []
    known = {
        one.name: fastest for one, fastest in zip(found, judged_together(found, error_rate), strict=True)
    }
    compared = found[0].compared
    sentences = [f"At a recall of {target:g} and a completeness of {COMPLETE:g}, with {compared.who_asks}."]
    sentences += [of_kind(kind, sets, known, target) for kind, sets in by_kind(found).items()]
    if any(one.state == AHEAD for one in known.values()):
        sentences.append(OF_AHEAD)
    sentences += [f"{text[0].upper()}{text[1:]}." for text in choice.notes if text.startswith("left out")]
    return [
        Statement("Which strategy under filters", " ".join(sentences)),
        *of_defaults(found),
        *of_planner(found),
    ]


def of_kind(kind: str, sets: Sequence[UnderFilter], known: dict[str, FastestStrategy], target: float) -> str:
    """Say which strategy is the fastest under the filter sets of a kind, those alike in one part."""

    def what(one: UnderFilter) -> tuple[str, tuple[str, ...]]:
        return known[one.name].state, (*known[one.name].names, "", *known[one.name].higher)

    parts = []
    for _, group in groupby(sets, what):
        alike = list(group)
        parts.append(
            f"{where(alike)} {says(known[alike[0].name], [known[one.name] for one in alike], target)}"
        )
    return f"Under {kind}: {'; '.join(parts)}."


def where(sets: Sequence[UnderFilter]) -> str:
    """Name shares of rows, from the first to the last."""
    first, last = percent_text(sets[0].selectivity), percent_text(sets[-1].selectivity)
    return f"at {first} of the rows" if len(sets) == 1 else f"from {first} to {last} of the rows"


def says(first: FastestStrategy, every: Sequence[FastestStrategy], target: float) -> str:
    """Say what is known of the fastest, in a sentence without its beginning."""
    if first.state == NONE:
        return f"no strategy reaches a recall of {target:g} with all rows"
    if first.state == ALIKE:
        return f"{listed(first.names)} cannot be told apart{slower_above(every)}"
    name = first.names[0]
    if first.state in (FASTEST, MEASURED, AHEAD):
        times = [one.next.value for one in every if one.next]
        # Estimates, the smallest of which is no lower bound.
        ratios = " to ".join(dict.fromkeys(map(three_digits, (min(times), max(times)))))
        return f"{name} {HOW[first.state]}, {ratios} times as fast as the next{slower_above(every)}"
    return f"{name} is the only one that {'was measured' if first.state == ALONE else 'reaches it'}"


def slower_above(every: Sequence[FastestStrategy]) -> str:
    """Name those that are slower at the higher recalls at which alone they were measured."""
    names = listed(list(dict.fromkeys(name for one in every for name in one.higher)))
    return f" (slower, but measured at higher recalls only: {names})" if names else ""


def of_defaults(found: Sequence[UnderFilter]) -> list[Statement]:
    """Say what is lost at default settings: where fewer rows or true neighbours come back than required."""
    sentences = []
    names = sorted({name for one in found for name in one.defaults})
    for name in names:
        for kind, sets in by_kind(found).items():
            losses = [
                f"{rows_returned(run, three_rows)} at {percent_text(one.selectivity)} of the rows"
                f" (recall {run.metrics['recall']:.3f})"
                for one in sets
                if (run := one.defaults.get(name)) and loses(run, one.compared.target)
            ]
            if losses:
                sentences.append(f"Under {kind}, {name} at its defaults returns {listed(losses)}.")
    if not names:
        return []
    if not sentences:
        return [Statement("Default settings", f"{listed(names)} at the defaults lose nothing beyond noise.")]
    return [Statement("Default settings", " ".join(sentences))]


def loses(run: Run, target: float) -> bool:
    """Whether completeness or recall is below what is required, by more than the sample of queries tells."""
    for metric, required in (("completeness", COMPLETE), ("recall", target)):
        bounds = interval(run, metric)
        if (bounds.high if bounds else run.metrics[metric]) < required:
            return True
    return False


def three_rows(rows: float) -> str:
    """Write a mean number of rows, as 4.0 or 0.04."""
    return f"{rows:.1f}" if rows >= 0.95 else f"{rows:.2g}"


def of_planner(found: Sequence[UnderFilter]) -> list[Statement]:
    """Say where the server's own plans take much longer than the best ones in every result, worst first."""
    cases = []
    for one in found:
        for name, at in one.at_recall.items():
            known = [run for run in one.compared.families[name] if regret(run) is not None]
            value = regret(at.run)
            is_large = all((regret(run) or 0) > LARGE_REGRET and not is_chance(run) for run in known)
            if value and is_large:
                cases.append((value, one, name, shortened(at.run.attrs.get(REGRET_PLAN) or "")))
    if not cases:
        return []
    cases.sort(key=lambda case: -case[0])
    texts = [
        f"{three_digits(value)} times as long with {name} under {one.name}" + (f" ({plan})" if plan else "")
        for value, one, name, plan in cases[:MOST_REGRETS]
    ]
    more = f", and over {LARGE_REGRET:g} times in {len(cases) - MOST_REGRETS} more cases" * (
        len(cases) > MOST_REGRETS
    )
    text = (
        "On up to 100 queries each, the server's own plans take longer than the fastest plan whose recall and"
        f" completeness are no lower, which is in brackets: {'; '.join(texts)}{more}."
    )
    return [Statement("The planner", text)]
