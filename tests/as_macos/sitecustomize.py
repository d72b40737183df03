"""Python as on macOS, as far as Linux can stand in for it: without what only Linux has, and called darwin.

Python imports this before a program where the folder is in PYTHONPATH. Libraries choose by the system what
they load, so they are imported first. How macOS itself behaves is another matter.
"""

import importlib
import multiprocessing
import pathlib
import sys
import tempfile
from functools import wraps

# Each is imported while the system has its own name.
_LIBRARIES = """asyncio concurrent.futures ctypes.util h5py numpy platform psutil psycopg requests selectors
    shutil subprocess threadpoolctl tqdm uuid"""
_LINUX = {
    "os": """O_DIRECT O_PATH O_TMPFILE POSIX_FADV_DONTNEED POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED
        copy_file_range eventfd fdatasync getresgid getresuid getxattr memfd_create pidfd_open pipe2
        posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity setns setresgid setresuid setxattr
        splice unshare""",
    "select": "epoll",
    "signal": "SIGPOLL SIGPWR SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo",
    "resource": "RLIMIT_MSGQUEUE RLIMIT_NICE prlimit",
    "mmap": "MADV_HUGEPAGE MAP_POPULATE",
    "time": "CLOCK_BOOTTIME",
    "socket": "AF_NETLINK AF_VSOCK SO_PEERCRED TCP_QUICKACK",
}
_OF_PROCESSES = "cpu_affinity cpu_num io_counters ionice memory_maps rlimit"  # psutil's


def _remove(place: object, names: str) -> None:
    for name in names.split():
        if name in vars(place):
            delattr(place, name)


def _hide(name: str, otherwise: object = None) -> None:
    """Have a method of paths find neither /proc nor /sys: it fails, or returns `otherwise`."""
    method = getattr(pathlib.Path, name)

    @wraps(method)
    def seen(path: pathlib.Path, *arguments: object, **more: object) -> object:
        if not str(path).startswith(("/proc/", "/sys/")):
            return method(path, *arguments, **more)
        if otherwise is not None:
            return otherwise
        raise FileNotFoundError(2, "No such file or directory", str(path))

    setattr(pathlib.Path, name, seen)


for library in (*_LIBRARIES.split(), *_LINUX):
    importlib.import_module(library)
for module, names in _LINUX.items():
    _remove(sys.modules[module], names)
_remove(sys.modules["psutil"].Process, _OF_PROCESSES)
for name in ("open", "read_text", "read_bytes", "write_text", "iterdir"):
    _hide(name)
for name in ("exists", "is_dir", "is_file"):
    _hide(name, False)
tempfile._O_TMPFILE_WORKS = False
multiprocessing.set_start_method("spawn", force=True)
sys.platform = "darwin"
