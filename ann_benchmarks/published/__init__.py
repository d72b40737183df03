"""Figures that others have published, as tables: reference/NAME.yml (reference/README.md has the format)."""

from .reading import published, published_names
from .selecting import Curve, Selection, select
from .tables import Published, Row, Table

__all__ = ["Curve", "Published", "Row", "Selection", "Table", "published", "published_names", "select"]
