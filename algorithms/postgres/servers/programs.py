"""PostgreSQL's programs as an ordinary account runs them: within its reach, and ended with this process."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from ..environment import variable
from ..errors import PostgresError
from .account import ServerAccount
from .libpq import own_environment
from .numa import interleaving


class ServerPrograms:
    """The programs in a folder, run by an account in the folder of a server."""

    def __init__(self, folder: Path, account: ServerAccount, root: Path) -> None:
        """Take the programs' folder, and the one that the server keeps everything in."""
        self.folder, self._account, self._root = folder, account, root

    def make_reachable(self) -> None:
        """Copy the programs where the server's account cannot reach them, as in root's home folder."""
        if self._account.can_reach(self.folder / "postgres"):
            return
        home = self.folder.parent
        package = home.parent
        version = self.version(as_account=False)
        parts = [*home.rglob("*.so"), *home.rglob("*.control")]  # another extension's release is another copy
        mark = hashlib.sha256(repr(sorted((file.name, file.stat().st_size) for file in parts)).encode())
        copy = self._root / f"install-{version}-{mark.hexdigest()[:8]}"
        if not copy.exists():
            for old in self._root.glob("install-*"):
                shutil.rmtree(old, ignore_errors=True)
            partial = copy.with_suffix(".partial")
            shutil.copytree(home, partial / package.name / home.name, symlinks=True)
            # A wheel keeps the libraries that its programs are linked to next to its package.
            for libraries in package.parent.glob(f"{package.name}.libs"):
                shutil.copytree(libraries, partial / libraries.name)
            for path in [partial, *partial.rglob("*")]:
                os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)
            partial.rename(copy)
        self.folder = copy / package.name / home.name / "bin"

    def version(self, as_account: bool = True) -> str:
        """Return the version of PostgreSQL, such as "18.4"."""
        return self.run("postgres", "--version", as_account=as_account).split()[2]

    def run(self, program: str, *arguments: str, as_account: bool = True) -> str:
        """Run a program to its end and return what it printed; PostgresError if it fails."""
        command = [str(self.folder / program), *arguments]
        if as_account:
            command = self._launch_arguments("", *command)
        done = subprocess.run(
            command, cwd=self._root, env=own_environment(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()] or lines
            raise PostgresError(f"{program} failed: {errors[0]}")
        return done.stdout

    def start(self, program: str, *arguments: str, stdout: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start a program that ends when this process does."""
        command = [*interleaving(), str(self.folder / program), *arguments]
        # A session of its own: Ctrl-C reaches us, and we decide when the server stops.
        return subprocess.Popen(
            self._launch_arguments(variable("GROUPS"), *command),
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT,
            cwd=self._root, env=own_environment(), start_new_session=True,
        )  # fmt: skip

    def _launch_arguments(self, groups: str, *command: str) -> list[str]:
        launcher = str(Path(__file__).with_name("launcher.py"))
        identity = [str(os.getpid()), str(self._account.uid), str(self._account.gid)]
        return [sys.executable, "-I", "-S", launcher, *identity, groups, *command]
