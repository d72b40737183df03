"""Download files: resumed where they stopped, and checked before they get their names."""

from .fetching import fetch as fetch
from .partial import DownloadRequest as DownloadRequest
from .record import has_record as has_record
from .record import verify as verify
