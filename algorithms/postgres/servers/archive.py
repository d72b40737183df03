"""Archives in which extensions are released: .zip and .whl, .tar.gz and .tar.xz.

Files alone are taken out of them, no links, under names that stay inside, and within bounds.
"""

import gzip
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from ..errors import PostgresError

_MIB = 1 << 20
_MOST_BYTES = 1024 * _MIB  # of all files of an archive together
_MOST_FILES = 50_000
_EXTENSION_FILES = (".so", ".control", ".sql")
_Files = Generator[tuple[str, int, Callable[[], IO[bytes]]], None, None]  # names, bytes, what opens each


def read_archive(archive: Path) -> dict[str, bytes | None]:
    """Give the files of an archive by their paths in it, with the content of those an extension consists of.

    Links are left out. PostgresError if it cannot be read, or is not within the bounds.
    """
    found: dict[str, bytes | None] = {}
    with _opened(archive) as files:
        for name, open_file in files:
            found[name] = None
            if name.endswith(_EXTENSION_FILES):
                with open_file() as stream:
                    found[name] = stream.read()
    return found


def unpack(archive: Path, folder: Path, is_chosen: Callable[[PurePosixPath], bool]) -> None:
    """Unpack the chosen files of an archive into a folder, for every account to read, and programs to run.

    PostgresError as above.
    """
    with _opened(archive) as files:
        for name, open_file in files:
            path = PurePosixPath(name)
            if not is_chosen(path):
                continue
            target = folder / path
            for parent in reversed(target.parents[: len(path.parts)]):
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)
            with open_file() as stream, target.open("xb") as file:
                shutil.copyfileobj(stream, file)
            target.chmod(0o755 if "bin" in path.parts else 0o644)


@contextmanager
def _opened(archive: Path) -> Iterator[Iterator[tuple[str, Callable[[], IO[bytes]]]]]:
    """Open an archive of any kind; whatever goes wrong with it becomes a PostgresError on one line."""
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise ValueError("it is not a regular file")
        with archive.open("rb") as file:
            start = file.read(8)
        if start == b"!<arch>\n":
            raise PostgresError(
                f"{archive} is a Debian package: unpack it by `dpkg-deb -x`, and give its files as a .tar.gz"
            )
        with closing((_zip_files if start.startswith(b"PK") else _tar_files)(archive)) as files:
            yield _checked(files)
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
        f"{archive} is damaged, or not a .zip, .whl, .tar.gz or .tar.xz of a release: {reason};"
        " download it again"
    )


def _checked(files: _Files) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """Refuse names that lead out of the archive, and more than the bounds."""
    total = 0
    for number, (name, size, open_file) in enumerate(files):
        total += size
        if number >= _MOST_FILES or total > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_FILES:,} files or {_MOST_BYTES // _MIB:,} MB")
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not name.isprintable() or "\\" in name:
            raise ValueError(f"its member {name[:80]!a} has a name that leads elsewhere")
        yield name, open_file


def _zip_files(archive: Path) -> _Files:
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was packed on Windows
            if not info.is_dir() and kind in (0, stat.S_IFREG):
                yield info.filename, info.file_size, lambda info=info: opened.open(info)  # type: ignore[misc]


def _tar_files(archive: Path) -> _Files:
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isfile() and not member.issparse():
                yield member.name, member.size, lambda member=member: opened.extractfile(member)  # type: ignore[misc]
