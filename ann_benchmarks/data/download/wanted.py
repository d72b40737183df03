"""What to download, and the hidden files beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wanted:
    """A file to be had from a URL.

    url         where it is
    path        the name it gets when it is whole
    size        bytes that the server's file must have, where that is known beforehand
    first_bytes only so many bytes from the start are wanted
    checksum    "sha256:HEX" or "md5:HEX" of the whole file; unused when only the first bytes are wanted
    finish      called with the path of the complete file before it gets its name: raises UserError, which
                need not name the file, if it is not what it should be; may edit its first 64 MiB, in place
    """

    url: str
    path: Path
    size: int | None = None
    first_bytes: int | None = None
    checksum: str = ""
    finish: Callable[[Path], None] | None = None

    @property
    def partial(self) -> Path:
        """Where it grows until it is whole."""
        return self.path.with_name(f".{self.path.name}.partial")

    @property
    def journal(self) -> Path:
        """Which segments of the partial file are good."""
        return self.path.with_name(f".{self.path.name}.partial.json")
