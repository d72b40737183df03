"""Archives in which extensions are released: .zip and .whl, .tar.gz, .tar.xz and Debian packages.

Whoever made one is not trusted: it is read as a stream, forward only and within bounds, and no link of it is
made or followed.
"""

import gzip
import io
import lzma
import os
import re
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from ..errors import PostgresError
from ..variables import program_environment
from .account import server_account

_MIB = 1 << 20
_MOST_PACKED = 1024 * _MIB  # of the archive itself
_MOST_MEMBERS = 50_000
_MOST_UNPACKED = 1024 * _MIB  # of all that is unpacked, or passed over
_MOST_RATIO = 200  # of what is unpacked to the archive, beyond _SMALL
_SMALL = 64 * _MIB
_MOST_OF_A_HEADER = _MIB  # a header is read at once, and may claim any size
_PIECE = 1 << 16
_EXTENSION_FILES = (".so", ".control", ".sql")
_DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ": lzma.LZMAFile,
}


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


_Members = Generator[
    tuple[str, _Readable], None, None
]  # names and contents, each read before the next one is


def read_archive(archive: Path) -> dict[str, bytes | None]:
    """Give the files of an archive by their paths in it, with the content of those an extension consists of.

    Links are left out. PostgresError if it cannot be read, or is not within the bounds.
    """
    with _opened(archive) as members:
        return {
            name: b"".join(_pieces(stream)) if name.endswith(_EXTENSION_FILES) else None
            for name, stream in members
        }


def unpack(archive: Path, folder: Path, is_chosen: Callable[[PurePosixPath], bool]) -> None:
    """Unpack the chosen files of an archive into a folder, for every account to read, and programs to run.

    PostgresError as above.
    """
    with _opened(archive) as members:
        for name, stream in members:
            path = PurePosixPath(name)
            if not is_chosen(path):
                continue
            target = folder / path
            for parent in reversed(target.parents[: len(path.parts)]):
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)
            with target.open("xb") as file:
                for piece in _pieces(stream):
                    file.write(piece)
            target.chmod(0o755 if "bin" in path.parts else 0o644)


def _pieces(stream: _Readable) -> Iterator[bytes]:
    return iter(partial(stream.read, _PIECE), b"")


@contextmanager
def _opened(archive: Path) -> Iterator[_Members]:
    """Open an archive of any kind; whatever goes wrong with it becomes a PostgresError on one line."""
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise ValueError("it is not a regular file")
        with archive.open("rb") as file:
            budget = _Budget(archive.stat().st_size)
            kind = file.read(8)
            file.seek(0)
            if kind.startswith(b"PK"):
                members = _zip_members(file, budget)
            elif kind == b"!<arch>\n":
                members = _debian_members(file, budget)
            else:
                members = _tar_members(file, budget)
            with closing(members):
                yield members
    except PostgresError:
        raise
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile) or error.errno is None:
            raise _unusable(archive, error) from None
        does = "read" if error.filename in (None, str(archive)) else f"unpack to {error.filename} what is in"
        raise PostgresError(f"cannot {does} {archive}: {error.strerror}") from None
    except Exception as error:  # the libraries document few of those that a damaged archive leads to
        raise _unusable(archive, error) from None


def _unusable(archive: Path, error: Exception) -> PostgresError:
    reason = (" ".join(str(error).split()) or type(error).__name__)[:200].rstrip(": ")
    return PostgresError(
        f"{archive} is damaged, or not a .zip, .whl, .tar.gz, .tar.xz or .deb of a release: {reason};"
        " download it again"
    )


def _zip_members(file: IO[bytes], budget: "_Budget") -> _Members:
    # The table of contents is read as a whole, however many entries it has.
    file.seek(0)
    entries, before = 0, b""
    while piece := file.read(1 << 20):
        entries += (before + piece).count(b"PK\x01\x02")
        before = piece[-3:]
    if entries > 2 * _MOST_MEMBERS:
        raise ValueError(f"it has more than {_MOST_MEMBERS:,} members")
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.member(info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed on Windows
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                raise ValueError(f"its member {info.filename[:80]!a} is a device or a pipe")
            if not info.is_dir() and kind in (0, stat.S_IFREG):
                with archive.open(info) as stream:
                    yield info.filename, _Counted(stream, budget)


def _tar_members(file: _Readable, budget: "_Budget") -> _Members:
    buffered = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
    start = buffered.peek(6)[:6]  # type: ignore[attr-defined]
    make = next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)
    unpacked: Any = _Counted(make(buffered) if make else buffered, budget)
    with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as archive:
        for member in archive:
            budget.member(member.name)
            if member.isdev():
                raise ValueError(f"its member {member.name[:80]!a} is a device or a pipe")
            if member.isfile() and not member.issparse():
                content = archive.extractfile(member)
                assert content is not None
                yield member.name, content
    while unpacked.read(_PIECE):  # to the checksum, which comes last
        pass


def _debian_members(file: IO[bytes], budget: "_Budget") -> _Members:
    """Read the part data.tar of a .deb: an `ar` archive, whose entries have headers of 60 bytes."""
    file.seek(8)
    while header := file.read(60):
        if len(header) < 60 or not header.endswith(b"`\n"):
            raise ValueError("an entry of the package has no header")
        digits = re.fullmatch(rb"(\d+) *", header[48:58])
        if digits is None:
            raise ValueError("an entry of the package has no size")
        name, size = header[:16].decode(errors="replace").rstrip(" /"), int(digits[1])
        if name == "data.tar.zst":
            yield from _unpacked_by_dpkg(file, budget)
            return
        if name.startswith("data.tar"):
            yield from _tar_members(_Part(file, size), budget)
            return
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("the package has no data.tar")


class _Header(tarfile.TarInfo):
    """A header of a tar archive, whose size nobody follows back, or has read at once if it is large."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        """Decode one."""
        found = super().frombuf(buf, encoding, errors)
        if found.size < 0 or (found.type not in tarfile.REGULAR_TYPES and found.size > _MOST_OF_A_HEADER):
            raise ValueError(f"a header in it claims {found.size:,} bytes")
        return found


class _Budget:
    """What may still come out of an archive; ValueError names the bound that it exceeds."""

    def __init__(self, packed: int) -> None:
        """Take the size of the archive in bytes."""
        if packed > _MOST_PACKED:
            raise ValueError(f"it has more than {_MOST_PACKED // _MIB:,} MB")
        self._most = min(_MOST_UNPACKED, max(_SMALL, _MOST_RATIO * packed))
        self._unpacked = self._members = 0

    def member(self, name: str) -> None:
        """Count a member, and refuse a name that leads out of the archive."""
        self._members += 1
        if self._members > _MOST_MEMBERS:
            raise ValueError(f"it has more than {_MOST_MEMBERS:,} members")
        is_plain = all(ord(character) >= 32 for character in name) and "\\" not in name
        if not name or name.startswith("/") or ".." in PurePosixPath(name).parts or not is_plain:
            raise ValueError(f"its member {name[:80]!a} has a name that leads elsewhere")

    def take(self, size: int) -> None:
        """Count bytes that were unpacked."""
        self._unpacked += size
        if self._unpacked > self._most:
            raise ValueError(f"it unpacks to more than {self._most // _MIB:,} MB")


class _Counted:
    """A stream that counts the bytes which are read from it, against a budget."""

    def __init__(self, stream: _Readable, budget: _Budget) -> None:
        self._stream, self._budget = stream, budget

    def read(self, size: int, /) -> bytes:
        """Read and count."""
        content = self._stream.read(size)
        self._budget.take(len(content))
        return content


class _Part(io.RawIOBase):
    """The next bytes of a file, as a file of its own."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(len(buffer), self._left))
        if not content and self._left:
            raise EOFError("the package ends early")
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)


def _unpacked_by_dpkg(file: IO[bytes], budget: "_Budget") -> _Members:
    """Have dpkg-deb read a .deb as its input: as an account without rights, where we are root."""
    account = server_account()
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # what `file` itself has read ahead is not there for others
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                ["dpkg-deb", "--fsys-tarfile", "-"],
                stdin=file, stdout=subprocess.PIPE, stderr=errors, bufsize=_PIECE,
                env=program_environment(), **account.identity(),
            )  # fmt: skip
        except FileNotFoundError:
            raise PostgresError(
                f"{file.name} is compressed with zstd, for which this machine lacks the program dpkg-deb: "
                "take the release's .zip instead"
            ) from None
        assert process.stdout is not None
        try:
            yield from _tar_members(process.stdout, budget)
            if process.wait() != 0:
                errors.seek(0)
                raise ValueError(errors.read(1000).decode(errors="replace"))
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
