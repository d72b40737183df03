"""Become PostgreSQL or what goes with it: an ordinary user if we are root, and ended when the parent is.

Run as a script: launcher.py PARENT_PID UID GID SIGNAL GROUPS FOLDER PROGRAM [ARGUMENT ...].

UID -1 keeps the user. SIGNAL is sent to it when the parent ends. GROUPS are files named cgroup.procs, joined
by ":", of the control groups to enter. FOLDER is to work in.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Change the user, arm the signal, and replace this process by the program."""
    parent, uid, gid, ending = (int(argument) for argument in sys.argv[1:5])
    for group in filter(None, sys.argv[5].split(":")):
        _enter(group)
    if uid != -1:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        # A change of user clears the request, hence the order.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, ending)
        if os.getppid() != parent:
            sys.exit("the parent ended before the server started")
    os.umask(0o077)
    os.chdir(sys.argv[6])  # after the change of user, who might not be allowed in the old folder
    os.execv(sys.argv[7], sys.argv[7:])


def _enter(group: str) -> None:
    """Enter a control group. We may be root: nothing else is written to, and no file is made or emptied."""
    if os.path.basename(group) != "cgroup.procs":  # noqa: PTH119 (pathlib takes long to import)
        sys.exit(f"FATAL: {group} is not the file cgroup.procs of a control group")
    try:
        processes = os.open(group, os.O_WRONLY | os.O_NOFOLLOW)
        os.write(processes, b"0")  # the process that writes it
        os.close(processes)
    except OSError as error:
        sys.exit(f"FATAL: the control group {group} cannot be entered: {error.strerror}")


if __name__ == "__main__":
    main()
