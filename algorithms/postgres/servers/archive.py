"""Archives in which extensions are released: .zip, .tar.gz, .tar.xz and Debian packages."""

import io
import lzma
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from ..errors import PostgresError

_EXTENSION_FILES = (".so", ".control", ".sql")
_DAMAGES = (
    *(zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, zlib.error),
    *(EOFError, ValueError, RuntimeError),  # RuntimeError: an encrypted .zip, or an unknown compression
)

File = tuple[str, bytes | None]


def read_archive(archive: Path) -> dict[str, bytes | None]:
    """Give the files of an archive by their paths in it, with the content of those an extension consists of.

    Links, and paths that lead out of the archive, are left out. PostgresError if it cannot be read.
    """
    try:
        with archive.open("rb") as file:
            kind = file.read(8)
            file.seek(0)
            if kind.startswith(b"PK"):
                files = dict(_zip_files(file))
            elif kind == b"!<arch>\n":
                files = dict(_tar_files(_debian_data(archive, file)))
            else:
                files = dict(_tar_files(file))
    except OSError as error:
        raise PostgresError(f"cannot read {archive}: {error.strerror or error}") from None
    except _DAMAGES as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
        raise PostgresError(
            f"{archive} is damaged, or is no .zip, .tar.gz, .tar.xz or .deb: {reason}; download it again"
        ) from None
    return {path: content for path, content in files.items() if ".." not in PurePosixPath(path).parts}


def _is_taken(path: str) -> bool:
    return path.endswith(_EXTENSION_FILES)


def _zip_files(file: IO[bytes]) -> Iterator[File]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed on Windows
            if not info.is_dir() and kind in (0, stat.S_IFREG):
                yield info.filename, archive.read(info) if _is_taken(info.filename) else None


def _tar_files(file: IO[bytes]) -> Iterator[File]:
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read() if _is_taken(member.name) else None


def _debian_data(archive: Path, file: IO[bytes]) -> IO[bytes]:
    """Open the part data.tar of a .deb: an `ar` archive, whose entries have headers of 60 bytes."""
    file.seek(8)
    while header := file.read(60):
        if len(header) < 60 or not header.endswith(b"`\n"):
            raise ValueError("an entry of the package has no header")
        name, size = header[:16].decode().rstrip(" /"), int(header[48:58])
        if name == "data.tar.zst":
            return io.BytesIO(_unpacked_by_dpkg(archive))
        if name.startswith("data.tar"):
            data = file.read(size)
            if len(data) < size:
                raise EOFError("the package ends early")
            return io.BytesIO(data)
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("the package has no data.tar")


def _unpacked_by_dpkg(archive: Path) -> bytes:
    command = ["dpkg-deb", "--fsys-tarfile", str(archive.absolute())]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise PostgresError(
            f"{archive} is compressed with zstd, for which this machine lacks the program dpkg-deb: "
            "take the release's .zip instead"
        ) from None
    except subprocess.CalledProcessError as error:
        raise ValueError(error.stderr.decode(errors="replace")) from None
