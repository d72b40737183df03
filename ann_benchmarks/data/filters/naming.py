"""The one name that a filter set has."""

from ann_benchmarks.common.errors import UserError, closest, shown

from .published import PUBLISHED_KINDS, published_share
from .synthetic import SYNTHETIC_KINDS, synthetic_set

KINDS_WITH_NUMBERS = (*SYNTHETIC_KINDS, *PUBLISHED_KINDS)


def canonical_filter(name: str) -> str:
    """Return the one name that a filter set has, however its number is written.

    UserError for a kind that there is not, and for a number out of range.
    """
    found = synthetic_set(name) or published_share(name)
    if found is not None:
        return found.name
    kind, colon, _ = name.partition(":")
    if colon:
        raise UserError(
            f"there is no kind of filter '{shown(kind)}' ('{shown(name)}');"
            f" {closest(kind, KINDS_WITH_NUMBERS)}"
        )
    return name
