"""Reading EXPLAIN's answer."""

from typing import Any


def index_of_plan(plan: dict[str, Any]) -> str | None:
    """Return the index, with its schema, that a plan in JSON scans in order; None if it scans none.

    A bitmap scan does not count: it forgets the order that the index gives. Nor does a scan without an order.
    """
    if plan["Node Type"] in ("Index Scan", "Index Only Scan") and "Order By" in plan:
        schema = plan.get("Schema")
        return f"{schema}.{plan['Index Name']}" if schema else str(plan["Index Name"])
    for child in plan.get("Plans", []):
        found = index_of_plan(child)
        if found:
            return found
    return None
