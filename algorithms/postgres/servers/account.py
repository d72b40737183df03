"""The ordinary user that runs our server: PostgreSQL refuses to run as root."""

import errno
import os
import pwd
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..environment import PREFIX, variable
from ..errors import PostgresError
from ..variables import program_environment
from . import folder_files
from .folder_files import PATIENCE_SECONDS, call_as, open_made, place_for_root, stranger_on


@dataclass(frozen=True)
class ServerAccount:
    """The account to become, with -1 for our own."""

    name: str
    uid: int = -1
    gid: int = -1

    @property
    def is_other(self) -> bool:
        """Whether the server runs as another account than ours."""
        return self.uid != -1

    def perform(self, action: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns when the account calls it (folder_files.call_as).

        All that is done in a folder of the account is done so: as root, a link there would lead anywhere.
        """
        if not self.is_other:
            return action(*arguments)
        return call_as(self.uid, self.gid, action, *arguments)

    def remove(self, path: Path) -> None:
        """Remove a folder with all that is in it, or a link, as the account; also while this process ends.

        Another account has a program do it: Python 3.12 refuses a fork while it ends.
        """
        if not self.is_other:
            folder_files.remove(path)
            return
        subprocess.run(
            ["rm", "-rf", "--", path],
            env=program_environment(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,  # the account may stop it
            **self.identity(),
        )

    def identity(self) -> dict[str, Any]:
        """Return what subprocess takes to start a program as the account, in no folder of ours."""
        if not self.is_other:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "cwd": "/"}

    def own(self, folder: Path) -> None:
        """Make a folder for the account; one that exists must be the account's already, or empty.

        Root makes it, or gives it away, only where nobody else can put something in its place.
        """
        if not self.is_other:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return
        # Who owns this file is trusted anyway: root runs it.
        if (stranger := stranger_on(folder, {0, self.uid, Path(__file__).stat().st_uid})) is not None:
            raise PermissionError(errno.EPERM, f"other accounts can change {stranger}")
        if (place := place_for_root(folder)) is not None:
            self._give(place)
            return
        folder = folder.resolve()
        with suppress(PermissionError):
            self.perform(folder_files.make_folder, folder)
        if not self.has(folder):
            raise PermissionError(
                errno.EPERM,
                f"root makes nothing where other accounts can write: make it, and give it to '{self.name}'",
            )

    def has(self, folder: Path) -> bool:
        """Whether a folder is there that belongs to the account."""
        try:
            status = folder.lstat()
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and (not self.is_other or status.st_uid == self.uid)

    def _give(self, folder: Path) -> None:
        handle = open_made(folder)
        try:
            if os.fstat(handle).st_uid == self.uid:
                return
            if os.listdir(handle):  # noqa: PTH208 (of an opened folder)
                raise PermissionError(errno.EPERM, f"it is not empty and does not belong to '{self.name}'")
            if place_for_root(folder) is None:  # somebody was faster in a folder that all may write
                raise PermissionError(errno.EPERM, "another account has made it")
            os.fchown(handle, self.uid, self.gid)
        finally:
            os.close(handle)

    def can_reach(self, path: Path) -> bool:
        """Whether the account may enter every folder on the way to `path`, and read what is there."""
        return bool(self.perform(os.access, path, os.R_OK | os.X_OK))


def server_account() -> ServerAccount:
    """Our own account, or, for root, the one that is named, else postgres, else nobody."""
    if os.geteuid() != 0:
        return ServerAccount("")
    named = variable("OS_USER")
    for name in [named] if named else ["postgres", "nobody"]:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return ServerAccount(name, entry.pw_uid, entry.pw_gid)
    raise PostgresError(
        f"PostgreSQL does not run as root, and the account '{named or 'postgres'}' does not exist: "
        f"name an ordinary one in {PREFIX}OS_USER"
    )
