"""What was seen of a server in several segments of a phase, as that of one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

WAITS = "wait_events"


def joined(segments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means of numbers, whether what is true or false was ever true, and of texts the last one."""
    facts: dict[str, Any] = {}
    for name in {name: None for segment in segments for name in segment}:
        values = [segment[name] for segment in segments if name in segment]
        if name == WAITS:
            facts[name] = json.dumps(_mean_shares([json.loads(value) for value in values]))
        elif all(isinstance(value, bool | np.bool_) for value in values):
            facts[name] = any(values)
        elif all(isinstance(value, int | float | np.number) for value in values):
            facts[name] = float(np.mean(values))
        else:
            facts[name] = values[-1]
    return facts


def _mean_shares(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = {name for some in shares for name in some}
    means = {name: sum(some.get(name, 0.0) for some in shares) / len(shares) for name in names}
    return {name: round(means[name], 4) for name in sorted(means, key=lambda name: -means[name])}
