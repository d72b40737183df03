"""Archives in which extensions are released: .zip and .whl, .tar.gz, .tar.xz and Debian packages.

Whoever made one is not trusted: it is read as a stream, within bounds, and no link of it is made or followed.
"""

import bz2
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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import PostgresError
from ..variables import program_environment
from .account import server_account
from .bounds import MOST_MEMBERS, PIECE, Budget, Counted, ForwardOnly, Readable

_EXTENSION_FILES = (".so", ".control", ".sql")
_DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


@dataclass(frozen=True)
class Member:
    """A file in an archive, to be read before the next one is."""

    name: str
    stream: Readable


Members = Generator[Member, None, None]


def read_archive(archive: Path) -> dict[str, bytes | None]:
    """Give the files of an archive by their paths in it, with the content of those an extension consists of.

    Links are left out. PostgresError if it cannot be read, or is not within the bounds.
    """
    with _opened(archive) as (members, budget):
        return {
            member.name: budget.content(member.stream, member.name)
            if member.name.endswith(_EXTENSION_FILES)
            else None
            for member in members
        }


def unpack(archive: Path, folder: Path, is_chosen: Callable[[PurePosixPath], bool]) -> None:
    """Unpack the chosen files of an archive into a folder, for every account to read, and programs to run.

    PostgresError as above.
    """
    with _opened(archive) as (members, budget):
        for member in members:
            path = PurePosixPath(member.name)
            if not is_chosen(path):
                continue
            target = folder / path
            for parent in reversed(target.parents[: len(path.parts)]):
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)
            with target.open("xb") as file:
                for piece in budget.pieces(member.stream, member.name):
                    file.write(piece)
            target.chmod(0o755 if "bin" in path.parts else 0o644)


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[Iterator[Member], Budget]]:
    """Open an archive of any kind; whatever goes wrong with it becomes a PostgresError on one line."""
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise ValueError("it is no file")
        with archive.open("rb") as file:
            budget = Budget(archive.stat().st_size)
            kind = file.read(8)
            file.seek(0)
            if kind.startswith(b"PK"):
                members = _zip_members(file, budget)
            elif kind == b"!<arch>\n":
                members = _debian_members(file, budget)
            else:
                members = _tar_members(file, budget)
            with closing(members):
                yield members, budget
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
        f"{archive} is damaged, or is no .zip, .whl, .tar.gz, .tar.xz or .deb of a release: {reason};"
        " download it again"
    )


def _zip_members(file: IO[bytes], budget: Budget) -> Members:
    # The table of contents is read as a whole, however many entries it has.
    file.seek(0)
    entries, before = 0, b""
    while piece := file.read(1 << 20):
        entries += (before + piece).count(b"PK\x01\x02")
        before = piece[-3:]
    if entries > 2 * MOST_MEMBERS:
        raise ValueError(f"it has more than {MOST_MEMBERS:,} members")
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.member(info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed on Windows
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                raise ValueError(f"its member {info.filename[:80]!a} is a device or a pipe")
            if not info.is_dir() and kind in (0, stat.S_IFREG):
                with archive.open(info) as stream:
                    yield Member(info.filename, Counted(stream, budget))


def _tar_members(file: Readable, budget: Budget) -> Members:
    buffered = io.BufferedReader(file) if isinstance(file, io.RawIOBase) else file
    start = buffered.peek(6)[:6]  # type: ignore[attr-defined]
    make = next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)
    unpacked = Counted(make(buffered) if make else buffered, budget)
    stream: Any = ForwardOnly(unpacked)
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            budget.member(member.name)
            if member.isdev():
                raise ValueError(f"its member {member.name[:80]!a} is a device or a pipe")
            if member.isfile() and not member.issparse():
                content = archive.extractfile(member)
                assert content is not None
                yield Member(member.name, content)
    while unpacked.read(PIECE):  # to the checksum, which comes last
        pass


def _debian_members(file: IO[bytes], budget: Budget) -> Members:
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


def _unpacked_by_dpkg(file: IO[bytes], budget: Budget) -> Members:
    """Have dpkg-deb read a .deb as its input: as an account without rights, where we are root."""
    account = server_account()
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # what `file` itself has read ahead is not there for others
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                ["dpkg-deb", "--fsys-tarfile", "-"],
                stdin=file, stdout=subprocess.PIPE, stderr=errors, bufsize=PIECE,
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
