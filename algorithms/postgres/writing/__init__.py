"""A table to write to, with an index, and clients that write: made for one workload and dropped after it."""

from .table import WritableTable, drop_leftovers

__all__ = ["WritableTable", "drop_leftovers"]
