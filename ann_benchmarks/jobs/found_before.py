"""The query argument that an earlier search has found for a recall, under whatever load and conditions."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, iter_result_paths, read_attributes, result_path
from ann_benchmarks.results.series import BESIDE, stored_series
from ann_benchmarks.results.speeds import OVERSTATED

SAME_INDEX = (TRUTH_ATTRIBUTE, "index_build_time")  # no two builds take the same number of seconds
_KEPT = (*SAME_INDEX, "target_recall", "target_parameter", "target_value", OVERSTATED)


def found_before(
    definition: Definition, dataset: str, count: int, target: float, points: Sequence[list[Any]]
) -> list[Mapping[str, Any]]:
    """Return what other curves of a definition have found for a target recall, whose `points` these are."""
    built = definition.arguments
    names = {result_path(dataset, count, "any", built + arguments).name for arguments in points}
    found: list[Mapping[str, Any]] = []
    for path in iter_result_paths(dataset, count):
        curve = path.parent.name.partition(BESIDE)[0]
        if path.name in names and f"{curve}-".startswith(f"{definition.family}-"):
            try:
                attrs = read_attributes(path)
            except (UserError, OSError):
                continue
            series = stored_series(attrs)
            of_settings = series.settings if series else ""
            if attrs.get("target_recall") == target and of_settings == definition.variant:
                found.append({name: attrs[name] for name in _KEPT if name in attrs})
    return found


class FoundValue(NamedTuple):
    """A value that a search has found, and by how much its recall exceeds that of other queries if known."""

    value: Any
    overstated: float | None


def value_found_before(
    found: Sequence[Mapping[str, Any]], parameter: str, values: Sequence[Any], facts: Mapping[str, Any]
) -> FoundValue | None:
    """Return the one of `values` that reached the recall on the same index; None where none is known.

    Where it is slow to search, it need not be searched again for other clients or memory. `facts` identify
    the dataset and the index, by the names in SAME_INDEX.
    """
    for attrs in found:
        if attrs.get("target_parameter") == parameter and all(
            name in attrs and name in facts and attrs[name] == facts[name] for name in SAME_INDEX
        ):
            same = (value for value in values if str(value) == str(attrs.get("target_value")))
            return next((FoundValue(value, attrs.get(OVERSTATED)) for value in same), None)
    return None
