"""Filters and the attributes that they are about: what a query's rows must be like beside being near."""

from .filter import Filter as Filter
from .filter import FilteredVector as FilteredVector
from .filter import FilterSet as FilterSet
from .filter import Predicate as Predicate
from .filter import RowAttribute as RowAttribute
from .filter import RowAttributes as RowAttributes
from .matching import passing as passing
from .named import KINDS_WITH_NUMBERS as KINDS_WITH_NUMBERS
from .named import SYNTHETIC_KINDS as SYNTHETIC_KINDS
from .named import canonical_filter as canonical_filter
