"""Filters and the attributes that they are about: what a query's rows must be like beside being near."""

from .attributes import RowAttribute as RowAttribute
from .attributes import RowAttributes as RowAttributes
from .filter import Filter as Filter
from .filter import FilteredVector as FilteredVector
from .filter import Predicate as Predicate
from .naming import KINDS_WITH_NUMBERS as KINDS_WITH_NUMBERS
from .naming import canonical_filter as canonical_filter
from .passing import passing as passing
from .sets import FilterSet as FilterSet
from .synthetic import SYNTHETIC_KINDS as SYNTHETIC_KINDS
