"""Sentences of the answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ann_benchmarks.common.numbers import UNKNOWN, significant


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def three_digits(value: float) -> str:
    """Write a figure for a sentence."""
    return significant(value) if math.isfinite(value) else UNKNOWN


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
