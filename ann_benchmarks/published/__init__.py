"""Figures that others have published, as tables: reference/NAME.yml (reference/README.md has the format)."""

from ann_benchmarks.published.reading import published, published_names
from ann_benchmarks.published.selecting import Curve, Selection, select
from ann_benchmarks.published.tables import Published, PublishedTable, Row

__all__ = [
    "Curve",
    "Published",
    "PublishedTable",
    "Row",
    "Selection",
    "published",
    "published_names",
    "select",
]
