"""Figures that others have published, as tables: reference/NAME.yml (reference/README.md has the format)."""

from .reading import published as published
from .reading import published_names as published_names
from .selecting import Curve as Curve
from .selecting import Selection as Selection
from .selecting import select as select
from .tables import Published as Published
from .tables import PublishedTable as PublishedTable
from .tables import Row as Row
