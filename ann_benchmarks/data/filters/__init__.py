"""Filters and the attributes that they are about: what a query's rows must be like beside being near."""

from .attributes import RowAttribute as RowAttribute
from .attributes import RowAttributes as RowAttributes
from .filter import Filter as Filter
from .filter import FilteredVector as FilteredVector
from .filter import Predicate as Predicate
from .passing import passing as passing
