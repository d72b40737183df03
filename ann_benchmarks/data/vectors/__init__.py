"""Vectors in files of any format and any size, read by range."""

from .opening import cast as cast
from .opening import open_parts as open_parts
from .opening import open_rows as open_rows
from .opening import open_source as open_source
from .opening import read_neighbors as read_neighbors
from .opening import source_files as source_files
from .rows import ArrayRows as ArrayRows
from .rows import FirstRows as FirstRows
from .rows import JoinedRows as JoinedRows
from .rows import Rows as Rows
from .rows import checked as checked
