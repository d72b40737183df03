"""The ordinary user that runs our server: PostgreSQL refuses to run as root."""

import errno
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from ..environment import PREFIX, variable
from ..errors import PostgresError


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

    def own(self, folder: Path) -> None:
        """Make a folder for the account; one that exists must be the account's already, or empty."""
        if folder.is_symlink() and self.is_other:
            raise PermissionError(errno.EPERM, "it is a link")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.is_other or folder.stat().st_uid == self.uid:
            return
        if any(folder.iterdir()):
            raise PermissionError(errno.EPERM, f"it is not empty and does not belong to '{self.name}'")
        os.chown(folder, self.uid, self.gid)

    def can_reach(self, path: Path) -> bool:
        """Whether the account may enter every folder on the way to `path`, and read what is there."""
        path = path.resolve()
        if not self.is_other:
            return os.access(path, os.R_OK)
        return self._may(path, 0o5) and all(self._may(parent, 0o1) for parent in path.parents)

    def _may(self, path: Path, mode: int) -> bool:
        try:
            status = path.stat()
        except OSError:
            return False
        if status.st_uid == self.uid:
            mode <<= 6
        elif status.st_gid == self.gid:
            mode <<= 3
        return status.st_mode & mode == mode


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
        f"PostgreSQL does not run as root and there is no account '{named or 'postgres'}': "
        f"name an ordinary one in {PREFIX}OS_USER"
    )
