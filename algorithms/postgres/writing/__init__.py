"""A table to write to, with an index, and clients that write: made for one workload and dropped after it."""

from .scratch import drop_leftovers
from .table import WritableTable

__all__ = ["WritableTable", "drop_leftovers"]
