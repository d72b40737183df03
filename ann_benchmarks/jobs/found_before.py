"""The query argument that an earlier search has found for a recall, under whatever load and conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, iter_result_paths, read_attributes, result_path

from .job import Job

SAME_INDEX = (TRUTH_ATTRIBUTE, "index_build_time")  # no two builds take the same number of seconds
_KEPT = (*SAME_INDEX, "target_recall", "target_parameter", "target_value")


def with_found_before(job: Job) -> Job:
    """Return a job that knows what other curves of its definition have found for its target recall."""
    if job.target_recall is None:
        return job
    names = {
        result_path(job.dataset, job.count, "any", job.definition.arguments + arguments).name
        for arguments in job.points
    }
    found = []
    for path in iter_result_paths(job.dataset, job.count):
        if path.name in names and f"{path.parent.name}-".startswith(f"{job.definition.family}-"):
            try:
                attrs = read_attributes(path)
            except (UserError, OSError):
                continue
            if attrs.get("target_recall") == job.target_recall:
                found.append({name: _plain(attrs[name]) for name in _KEPT if name in attrs})
    return replace(job, found_before=found)


def value_found_before(job: Job, parameter: str, values: Sequence[Any], facts: Mapping[str, Any]) -> Any:
    """Return the one of `values` that reached the job's recall on the same index; None where none is known.

    Recall depends on neither clients nor memory: where it is slow to search, it need not be searched again.
    `facts` tell the dataset and the index, by the names in SAME_INDEX.
    """
    for attrs in job.found_before:
        if attrs.get("target_parameter") == parameter and all(
            name in attrs and name in facts and attrs[name] == facts[name] for name in SAME_INDEX
        ):
            return next((value for value in values if str(value) == str(attrs["target_value"])), None)
    return None


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
