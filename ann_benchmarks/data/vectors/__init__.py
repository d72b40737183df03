"""Vectors in files of any format and any size, read by range."""

from .checking import checked as checked
from .conversion import convert as convert
from .joined import JoinedRows as JoinedRows
from .neighbors import distinct_ids as distinct_ids
from .neighbors import parquet_ids as parquet_ids
from .neighbors import read_neighbors as read_neighbors
from .opening import open_parts as open_parts
from .opening import open_rows as open_rows
from .opening import open_source as open_source
from .opening import source_files as source_files
from .rows import ArrayRows as ArrayRows
from .rows import FirstRows as FirstRows
from .rows import Rows as Rows
