"""What a plug-in offers for the search of the smallest query argument that reaches a recall."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SearchRange:
    """The query parameter, its values ascending in effort, and a value's arguments of set_query_arguments."""

    parameter: str
    values: Sequence[Any]
    arguments: Callable[[Any], list[Any]] = lambda value: [value]
