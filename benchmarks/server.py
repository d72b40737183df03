"""A server for one benchmark, gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.environment import variable
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation, installed_binaries
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer


@contextmanager
def temporary_server() -> Iterator[Server]:
    """Start a server in a folder of its own; plug-ins use it while it is there.

    Its programs are the embedded ones, or those of ANN_BENCHMARKS_PG_BIN.
    """
    folder = Path(tempfile.mkdtemp(prefix="ann-benchmark-"))
    folder.chmod(0o755)  # the server's account must be able to enter
    programs = installed_binaries() if variable("BIN") else embedded_installation() / "bin"
    server = LocalServer(programs, folder / "server")
    servers._current = server
    try:
        server.start({})
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
