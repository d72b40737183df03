"""What the sentences of an answer share: their form."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
