"""One file that is downloaded: what the server has, what is on disk, and whether it is what was expected."""

import shutil
from collections import deque

from ann_benchmarks.common.errors import UserError

from .journal import DownloadRequest
from .partial import Partial
from .server import Remote


class FileTask:
    """A file with the segments that nobody has begun; `hint` says what else the user can do without it."""

    def __init__(self, request: DownloadRequest, hint: str) -> None:
        """Nothing is known yet of the server's file."""
        self.request, self._hint = request, hint
        self.partial = Partial(request)
        self.remote = Remote(None, "")
        # None in it: a job without a segment, for what comes after the last one.
        self.todo: deque[int | None] | None = None
        self.running = 0
        self.counted = 0  # bytes that the progress bar has seen

    @property
    def length(self) -> int | None:
        """Bytes that will be on disk, if known."""
        return self.remote.total if self.request.first_bytes is None else self.request.first_bytes

    @property
    def lacking(self) -> int:
        """Bytes that are to come, as far as known; below 0 where the bar has seen more."""
        return (self.length or 0) - self.counted

    def most(self) -> int:
        """Bytes that may arrive in one piece: half of the disk's room where nobody knows the size."""
        known = self.request.size if self.request.size is not None else self.length
        return known if known is not None else shutil.disk_usage(self.request.path.parent).free // 2

    def check_size(self, total: int | None) -> None:
        """Raise UserError where the server's file has another number of bytes than was expected."""
        size, first = self.request.size, self.request.first_bytes
        if total is not None and size not in (None, total):
            raise self.failure(f"the server's file has {total:,} bytes instead of {size:,}", "try again")
        if total is not None and first is not None and total < first:
            reason = f"the server's file has {total:,} bytes, fewer than the {first:,} requested"
            raise self.failure(reason, "try again")

    def check_sum(self) -> None:
        """Discard what has arrived and raise UserError where it is damaged."""
        request = self.request
        is_whole = request.first_bytes is None or request.first_bytes == self.remote.total
        if not request.checksum or not is_whole:
            return
        kind, _, expected = request.checksum.partition(":")
        found = self.partial.digest(kind)
        if found != expected.lower():
            self.partial.discard()
            reason = f"what arrived is damaged (its {kind} is {found} instead of {expected.lower()})"
            raise self.failure(reason, "try again")

    def name(self) -> None:
        """Give what has arrived its name; UserError where it cannot be used."""
        request = self.request
        try:
            self.partial.name()
        except UserError as error:
            if request.partial.exists():
                raise
            reason = str(error).replace(str(request.partial), str(request.path))
            raise self.failure(f"what arrived cannot be used: {reason}", "try again") from None

    def failure(self, reason: str, advice: str) -> UserError:
        """Return the error that ends the download, with what the user can do."""
        advice += f", or {self._hint}" if self._hint else ""
        return UserError(f"cannot download {self.request.url}: {reason}; {advice}")
