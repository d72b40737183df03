"""Archives in which extensions are released: .zip and .whl, .tar.gz, .tar.xz and Debian packages.

Whoever installs an extension runs its code, and so trusts who made it. Refused is what would do harm by
mistake: an archive that is damaged, too large, or whose names lead out of it. No link is made or followed.
"""

import gzip
import io
import lzma
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import PostgresError
from ..variables import program_environment

_MOST_BYTES = 1 << 30  # of the archive, and of its files
_EXTENSION_FILES = (".so", ".control", ".sql")
_DECOMPRESSORS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ": lzma.LZMAFile,
}
_File = tuple[str, int, Callable[[], bytes]]  # its name and size in bytes, and what reads it


def read_archive(archive: Path) -> dict[str, bytes | None]:
    """Give the files of an archive by their paths in it, with the content of those an extension consists of.

    Links are left out. PostgresError if it cannot be read, or is not within the bounds.
    """
    with _opened(archive) as files:
        return {name: read() if name.endswith(_EXTENSION_FILES) else None for name, _, read in files}


def unpack(archive: Path, folder: Path, is_chosen: Callable[[PurePosixPath], bool]) -> None:
    """Unpack the chosen files of an archive into a folder, for every account to read, and programs to run.

    PostgresError as above.
    """
    with _opened(archive) as files:
        for name, _, read in files:
            path = PurePosixPath(name)
            if not is_chosen(path):
                continue
            target = folder / path
            for parent in reversed(target.parents[: len(path.parts)]):
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)
            with target.open("xb") as file:
                file.write(read())
            target.chmod(0o755 if "bin" in path.parts else 0o644)


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[_File]]:
    """Open an archive of any kind; whatever goes wrong with it becomes a PostgresError on one line."""
    try:
        status = archive.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        if status.st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES >> 20:,} MB")
        with archive.open("rb") as file:
            yield _within_bounds(_files(file))
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


def _within_bounds(files: Iterator[_File]) -> Iterator[_File]:
    """Yield the files; ValueError where they are too large, or a name leads elsewhere."""
    total = 0
    for name, size, read in files:
        is_plain = name.isprintable() and "\\" not in name
        if not name or name.startswith("/") or ".." in PurePosixPath(name).parts or not is_plain:
            raise ValueError(f"its member {name[:80]!a} has a name that leads elsewhere")
        total += size
        if total > _MOST_BYTES:
            raise _too_large()
        yield name, size, read


def _too_large() -> ValueError:
    return ValueError(f"it unpacks to more than {_MOST_BYTES >> 20:,} MB")


def _files(file: IO[bytes]) -> Iterator[_File]:
    """Yield the ordinary files of an archive; each is read before the next one is requested."""
    kind = file.read(8)
    file.seek(0)
    if kind.startswith(b"PK"):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                mode = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed on Windows
                if not info.is_dir() and mode in (0, stat.S_IFREG):
                    yield info.filename, info.file_size, partial(archive.read, info)
        return
    packed = io.BytesIO(_package_data(file)) if kind == b"!<arch>\n" else file
    with tarfile.open(fileobj=io.BytesIO(_decompressed(packed))) as tar:
        for member in tar:
            if member.isfile() and not member.issparse():
                content = tar.extractfile(member)
                assert content is not None
                yield member.name, member.size, content.read


def _decompressed(file: IO[bytes]) -> bytes:
    """Read a tar, compressed or not, to the checksum, which comes last."""
    start = file.read(6)
    file.seek(0)
    make = next((make for magic, make in _DECOMPRESSORS.items() if start.startswith(magic)), None)
    content: bytes = (make(file) if make else file).read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _too_large()
    return content


def _package_data(file: IO[bytes]) -> bytes:
    """Return the part data.tar of a .deb: an `ar` archive, whose entries have headers of 60 bytes."""
    content, place = file.read(), 8
    while len(header := content[place : place + 60]) == 60 and header.endswith(b"`\n"):
        name, size = header[:16].decode(errors="replace").rstrip(" /"), int(header[48:58])
        if size < 0:
            raise ValueError("an entry of the package has no size")
        if name == "data.tar.zst":
            return _unpacked_by_dpkg(file.name)
        if name.startswith("data.tar"):
            return content[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    raise ValueError("the package has no data.tar")


def _unpacked_by_dpkg(package: str) -> bytes:
    try:
        command = ["dpkg-deb", "--fsys-tarfile", package]
        done = subprocess.run(command, capture_output=True, env=program_environment(), check=False)
    except FileNotFoundError:
        raise PostgresError(
            f"{package} is compressed with zstd, for which this machine lacks the program dpkg-deb: "
            "take the release's .zip instead"
        ) from None
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace"))
    return done.stdout
