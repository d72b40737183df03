"""The program pgbouncer: where it is, its version, and what that version can do."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import PostgresError
from ..servers.account import ServerAccount
from ..variables import program_environment

NAME = "pgbouncer"
SESSION, TRANSACTION, LOCAL = "session", "transaction", "transaction-local"
POOLERS = {f"{NAME}:{mode}": mode for mode in (SESSION, TRANSACTION, LOCAL)}
_PREPARED = (1, 21)  # the version from which prepared statements work on connections that clients share
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # which are not in everybody's PATH
_WAIT_SECONDS = 30


@dataclass(frozen=True)
class PoolerProgram:
    """The program and its version, such as "1.24.1"."""

    path: Path
    version: str

    def check(self, mode: str) -> None:
        """Raise PostgresError where this version cannot do what a mode takes."""
        numbers = tuple(int(number) for number in re.findall(r"\d+", self.version)[:2])
        if mode != SESSION and numbers < _PREPARED:
            raise PostgresError(
                f"{self.path} is version {self.version}, which has no prepared statements in transaction"
                f" mode: install {NAME} {_PREPARED[0]}.{_PREPARED[1]} or newer, or use {NAME}:{SESSION}"
            )


def find_program(account: ServerAccount) -> PoolerProgram:
    """Return the pgbouncer of PATH, which the account can run; PostgresError where there is none."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    found = shutil.which(NAME, path=folders)
    if found is None:
        raise PostgresError(
            f"there is no {NAME} in PATH: install it (Debian, Ubuntu: apt install {NAME}; Fedora: dnf install"
            f" {NAME}; macOS: brew install {NAME}), or leave --pooler out"
        )
    path = Path(found).absolute()
    try:
        done = subprocess.run(
            [path, "--version"],
            env=program_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_WAIT_SECONDS,
            check=False,
            **account.identity(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PostgresError(f"{path} does not run: {getattr(error, 'strerror', None) or error}") from None
    version = re.search(r"pgbouncer\D{0,20}(\d+\.\d+[.\w]*)", done.stdout, re.IGNORECASE)
    if version is None:
        said = " ".join((done.stdout + done.stderr).split())[:200] or f"exit status {done.returncode}"
        raise PostgresError(f"{path} does not say its version: {said}")
    return PoolerProgram(path, version[1])
