"""Download files: resumed where they stopped, and checked before they get their names."""

from collections.abc import Sequence

from .partial import DownloadRequest as DownloadRequest
from .record import has_record as has_record
from .record import verify as verify


def fetch(files: Sequence[DownloadRequest], connections: int = 4, hint: str = "") -> None:
    """Download every file that is not there yet; each has its name when it is whole, or not at all.

    Each connection takes the next file. What has arrived stays next to it, for the next call to go on from.
    Raises UserError when a server has no such file, keeps failing or sends something else, or when the disk
    is too small; `hint` says what may help besides running again, such as "name a mirror in VARIABLE".
    """
    from .fetching import fetch_files  # needs requests; plots and reports do not wait for it

    fetch_files(files, connections, hint)
