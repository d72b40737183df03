"""What others have published about throughput and latency by RAM, to lay over one's own."""

from functools import cache
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.published import read_tiers
from ann_benchmarks.published import published_names

from .data import json_number


@cache
def others_data() -> list[dict[str, Any]]:
    """Return each publication with such figures: its lines, RAM over size of the index, as shares."""
    found = []
    for name in published_names():
        try:
            published = read_tiers(name)
        except UserError:  # its tables are about something else
            continue
        lines = [
            {
                "name": line.name,
                **{
                    panel: [[json_number(point.x), json_number(point.y)] for point in points]
                    for panel, points in line.panels.items()
                },
            }
            for line in published.lines
        ]
        found.append({"id": name, "label": published.label, "lines": lines})
    return found
