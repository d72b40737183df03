"""How much an archive may hold, and a stream that no damage has read for ever: it goes forward only."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Protocol

MIB = 1 << 20
MOST_PACKED = 1024 * MIB  # of the archive itself
MOST_MEMBERS = 50_000
MOST_OF_A_MEMBER = 1024 * MIB
MOST_UNPACKED = 2048 * MIB  # of all that is unpacked, or passed over
MOST_KEPT = 512 * MIB  # in memory
MOST_RATIO = 200  # of what is unpacked to the archive, beyond _SMALL
_SMALL = 64 * MIB
_MOST_AT_ONCE = MIB  # of one read: a header claims any size
PIECE = 1 << 16


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return at most this many bytes, none at the end."""


class Budget:
    """What may still come out of an archive; ValueError names the bound that it exceeds."""

    def __init__(self, packed: int) -> None:
        """Take the size of the archive in bytes."""
        if packed > MOST_PACKED:
            raise ValueError(f"it has more than {MOST_PACKED // MIB:,} MB")
        self._most = min(MOST_UNPACKED, max(_SMALL, MOST_RATIO * packed))
        self._unpacked = self._members = self._kept = 0

    def member(self, name: str) -> None:
        """Count a member, and refuse a name that leads out of the archive."""
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise ValueError(f"it has more than {MOST_MEMBERS:,} members")
        is_plain = all(ord(character) >= 32 for character in name) and "\\" not in name
        if not name or name.startswith("/") or ".." in PurePosixPath(name).parts or not is_plain:
            raise ValueError(f"its member {name[:80]!a} has a name that leads elsewhere")

    def take(self, size: int) -> None:
        """Count bytes that were unpacked."""
        self._unpacked += size
        if self._unpacked > self._most:
            raise ValueError(f"it unpacks to more than {self._most // MIB:,} MB")

    def pieces(self, stream: Readable, name: str) -> Iterator[bytes]:
        """Yield what a member holds."""
        size = 0
        while piece := stream.read(PIECE):
            size += len(piece)
            if size > MOST_OF_A_MEMBER:
                raise ValueError(f"its member {name[:80]!a} has more than {MOST_OF_A_MEMBER // MIB:,} MB")
            yield piece

    def content(self, stream: Readable, name: str) -> bytes:
        """Return what a member holds, to be kept."""
        kept = bytearray()
        for piece in self.pieces(stream, name):
            kept += piece
            self._kept += len(piece)
            if self._kept > MOST_KEPT:
                raise ValueError(f"the parts of extensions in it have more than {MOST_KEPT // MIB:,} MB")
        return bytes(kept)


class Counted:
    """A stream that counts the bytes which are read from it, against a budget."""

    def __init__(self, stream: Readable, budget: Budget) -> None:
        """Take both."""
        self._stream, self._budget = stream, budget

    def read(self, size: int, /) -> bytes:
        """Read and count."""
        content = self._stream.read(size)
        self._budget.take(len(content))
        return content


class ForwardOnly:
    """What tarfile needs of a file. It passes over what is not read, and goes back by one byte at most.

    tarfile follows sizes of headers, whichever these are, and negative ones back to where it was.
    """

    def __init__(self, stream: Readable) -> None:
        """Take a stream at its beginning."""
        self._stream = stream
        self._at = self._position = 0  # position of the stream, and of the next read
        self._last = b""

    def tell(self) -> int:
        """Where the next read begins."""
        return self._position

    def seek(self, position: int) -> int:
        """Have the next read begin there."""
        self._position = position
        return position

    def read(self, size: int, /) -> bytes:
        """Read exactly this much, less at the end of the stream."""
        if not 0 <= size <= _MOST_AT_ONCE:
            raise ValueError(f"a header in it claims {size:,} bytes")
        again = b""
        if self._last and size and self._position == self._at - 1:
            again = self._last
        elif self._position < self._at:
            raise ValueError("a header in it has a size below zero")
        while self._at < self._position:
            if not self._fetch(min(PIECE, self._position - self._at)):
                raise EOFError("it ends early")
        content = bytearray(again)
        while len(content) < size and (piece := self._fetch(size - len(content))):
            content += piece
        self._position = self._at
        return bytes(content)

    def _fetch(self, size: int) -> bytes:
        piece = self._stream.read(size)
        self._at += len(piece)
        self._last = piece[-1:] or self._last
        return piece
