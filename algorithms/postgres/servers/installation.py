"""An extension's release: read from an archive, checked against a PostgreSQL, and put into it."""

import errno
import fcntl
import os
import platform
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import PostgresError
from .archive import read_archive
from .programs import SUFFIX, built_version, library_folders

# By the number in the header of an ELF file; the names are those that `uname -m` prints.
_MACHINES = {3: "i686", 21: "ppc64le", 22: "s390x", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
# PostgreSQL compares this block before it loads a library: version, most arguments of a function, most
# columns of an index, length of a name, floats by value, and who made the server.
_MAGIC = re.compile(b"(..)\0\0" + re.escape(struct.pack("<4i", 100, 32, 64, 1)) + b"PostgreSQL\0", re.DOTALL)


@dataclass(frozen=True)
class Installation:
    """A PostgreSQL, by the folder that has bin/, lib/ and share/."""

    folder: Path

    def major(self) -> str:
        """Read the major version out of the server's program."""
        return re.split(r"\D", built_version(self.folder), maxsplit=1)[0]

    def machine(self) -> str:
        """Name the machine that its programs are for, as `uname -m` does."""
        try:
            with (self.folder / "bin/postgres").open("rb") as program:
                return elf_machine(program.read(20)) or f"{platform.machine()} {platform.system()}"
        except OSError as error:
            raise PostgresError(f"cannot read {error.filename}: {error.strerror}") from None

    @property
    def libraries(self) -> Path:
        """The folder of its libraries."""
        return self._own("lib")

    @property
    def extensions(self) -> Path:
        """The folder of the extensions' control files and scripts."""
        return self._own("share") / "extension"

    def version_of(self, extension: str) -> str | None:
        """Find which release of an extension it has."""
        return _default_version(self.extensions / f"{extension}.control")

    def _own(self, name: str) -> Path:
        # PostgreSQL adds a folder, unless its name is in the path that it was built for.
        added = self.folder / name / "postgresql"
        return added if added.is_dir() else self.folder / name


@dataclass(frozen=True)
class ExtensionRelease:
    """The files of an extension by their names."""

    archive: Path
    version: str
    library: str  # name of the file
    control: str  # name of the file
    contents: Mapping[str, bytes]


def read_release(archive: Path, extension: str) -> ExtensionRelease:
    """Take an extension's files out of an archive, in whichever folders; PostgresError if some lack."""
    files = read_archive(archive)
    control = f"{extension}.control"
    controls = _one(archive, files, control).decode(errors="replace")
    version = _control_value(controls, "default_version")
    if version is None:
        raise PostgresError(f"{archive}: its {control} names no default_version; take another release")
    named = _control_value(controls, "module_pathname")
    for value in filter(None, (version, named and PurePosixPath(named).name)):
        if ".." in value or not re.fullmatch(r"[\w$][\w.+~-]*", value):
            raise PostgresError(f"{archive}: its {control} names '{value}', not a version or file name")
    library = f"{PurePosixPath(named or extension).name}.so"
    libraries = {PurePosixPath(path).name for path in files}
    if named is None and library not in libraries and f"{extension}-{version}.so" in libraries:
        library = f"{extension}-{version}.so"  # the name in its SQL script
    contents = {name: _one(archive, files, name) for name in (control, library)}
    script = re.compile(rf"{re.escape(extension)}--[\w.+~-]+\.(sql|control)")
    for name in {PurePosixPath(path).name for path in files}:
        if script.fullmatch(name):
            contents[name] = _one(archive, files, name)
    if not any(re.fullmatch(rf"{re.escape(extension)}--((?!--).)+\.sql", name) for name in contents):
        raise _lacks(archive, files, f"{extension}--{version}.sql")
    return ExtensionRelease(archive, version, library, control, contents)


def install(release: ExtensionRelease, installation: Installation) -> None:
    """Put a release into a PostgreSQL in place of another one.

    PostgresError if it is for another PostgreSQL, or this machine lacks what it loads besides. A running
    server keeps the library that it has loaded. Interrupted between two files, the extension has no control
    file and is not offered.
    """
    _check(release, installation)
    folders = library_folders(release.library, release.contents[release.library])
    list_of_folders = (installation.folder / release.control).with_suffix(SUFFIX)
    try:
        list_of_folders.unlink(missing_ok=True)
        if folders:
            _write(list_of_folders, "".join(f"{folder}\n" for folder in folders).encode(), 0o644)
        _put_in_place(release, installation.libraries, installation.extensions)
    except OSError as error:
        raise PostgresError(
            f"cannot write {error.filename or installation.folder}: {error.strerror}; {_advice(error)}"
        ) from None


def extension_version(programs: Path, extension: str) -> str | None:
    """Find which release of an extension the PostgreSQL of some programs has; None where it is not found.

    Debian has what is shared between machines apart from the programs.
    """
    installation = programs.parent
    shared = Path("/usr/share/postgresql", installation.name)
    folders = (Installation(installation).extensions, shared / "extension")
    found = (_default_version(folder / f"{extension}.control") for folder in folders)
    return next(filter(None, found), None)


def _default_version(control: Path) -> str | None:
    try:
        return _control_value(control.read_text(errors="replace"), "default_version")
    except OSError:
        return None


def _control_value(control: str, key: str) -> str | None:
    match = re.search(rf"^\s*{key}\s*=?\s*'?([\w$./+~-]+)", control, re.MULTILINE)
    return match[1] if match else None


def _one(archive: Path, files: Mapping[str, bytes | None], name: str) -> bytes:
    found = [path for path in files if PurePosixPath(path).name == name]
    if not found:
        raise _lacks(archive, files, name)
    if len(found) > 1:
        raise PostgresError(
            f"{archive} has {name} more than once ({', '.join(found)}): take one for a single PostgreSQL"
        )
    content = files[found[0]]
    assert content is not None  # its suffix is one of those that are read
    return content


def _lacks(archive: Path, files: Mapping[str, bytes | None], name: str) -> PostgresError:
    # The parts of an extension first: they show which extension this is.
    names = [PurePosixPath(path).name for path in sorted(files, key=lambda path: (files[path] is None, path))]
    held = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return PostgresError(f"{archive} has no {name}: it holds {held or 'no files'}; take a built release")


def _check(release: ExtensionRelease, installation: Installation) -> None:
    library = release.contents[release.library]
    machine, our_machine = elf_machine(library[:20]), installation.machine()
    if machine != our_machine:
        built_for = f"for {machine}" if machine else "not a library for Linux"
        raise PostgresError(
            f"{release.archive}: its {release.library} is {built_for}, this PostgreSQL is for {our_machine}"
        )
    match = _MAGIC.search(library)
    major = str(int.from_bytes(match[1], "little") // 100) if match else "of an unknown version"
    if major != (ours := installation.major()):
        raise PostgresError(f"{release.archive} is for PostgreSQL {major}, this one is {ours}")


def _put_in_place(release: ExtensionRelease, libraries: Path, extensions: Path) -> None:
    places = {
        (libraries if name == release.library else extensions) / name: content
        for name, content in release.contents.items()
    }
    control = extensions / release.control
    stem = release.control.removesuffix(".control")
    folder = os.open(extensions, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # of two installations at a time, one waits
        for path, content in places.items():
            _write(_new_name(path), content, 0o755 if path.parent == libraries else 0o644)
        control.unlink(missing_ok=True)
        for path in places:
            if path != control:
                _new_name(path).replace(path)
        for path in extensions.glob(f"{stem}--*"):
            if path not in places:  # by another release
                path.unlink()
        os.fsync(folder)
        _new_name(control).replace(control)
        os.fsync(folder)
    finally:
        for path in places:
            _new_name(path).unlink(missing_ok=True)
        os.close(folder)


def _new_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _write(path: Path, content: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        os.fchmod(file.fileno(), mode)  # the account that runs the server must be able to read it
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _advice(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "free some space and run again"
    return (
        "run this as the folder's owner, or use a virtual environment of your own "
        "(python3 -m venv, then pip install what this project requires)"
    )


def elf_machine(start: bytes) -> str | None:
    """Name the machine by the first 20 bytes of a program or library; None if it is not an ELF file."""
    if len(start) < 20 or not start.startswith(b"\x7fELF"):
        return None
    number = int.from_bytes(start[18:20], "little" if start[5] == 1 else "big")
    return _MACHINES.get(number, f"ELF machine {number}")
