"""Contenders in turn: whether rounds followed each other, and each point has a run of each of its rounds."""

import math
from collections.abc import Sequence

from .points import CheckedPoint
from .rules import Findings
from .timings import ADVICE, CLOCK

RACE, ROUNDS = "rounds", "run_rounds"  # attributes: what points of one race share, and the round of each run


def check_turns(points: Sequence[CheckedPoint], findings: Findings) -> None:
    """Refuse points with rounds left out, and rounds of a race that took place at the same time."""
    races: dict[str, list[CheckedPoint]] = {}
    for point in points:
        rounds = point.numbers(ROUNDS)
        if not rounds and RACE not in point.attrs:
            continue
        if rounds != [*range(1, len(point.run_seconds) + 1)]:
            what = f"has runs of the rounds {_listed(rounds)}, and {len(point.run_seconds)} runs in all"
            findings.refuse(point.file, "timings", what, ADVICE)
        elif len(point.numbers("run_started")) == len(rounds):
            races.setdefault(str(point.attrs.get(RACE)), []).append(point)
    for race in races.values():
        _check_order(race, findings)


def _check_order(race: Sequence[CheckedPoint], findings: Findings) -> None:
    """Refuse a point of which a run began before another point had begun its run of an earlier round."""
    begun = [point.numbers("run_started") for point in race]
    latest, holder = -math.inf, ""
    for place in range(max(map(len, begun))):
        turns = [(of_point[place], point.file) for of_point, point in zip(begun, race, strict=True)
                 if place < len(of_point)]  # fmt: skip
        for start, file in turns:
            if start < latest - CLOCK:
                what = f"has a run of round {place + 1} that began before round {place} of {holder}"
                findings.refuse(file, "timings", what, ADVICE)
        latest, holder = max((latest, holder), *turns)


def _listed(rounds: Sequence[float]) -> str:
    return ", ".join(f"{one:g}" for one in rounds[:20]) or "of no number"
