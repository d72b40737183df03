"""A server for one benchmark, gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer


@contextmanager
def temporary_server() -> Iterator[Server]:
    """Start an embedded server in a folder of its own; plug-ins use it while it is there."""
    folder = Path(tempfile.mkdtemp(prefix="ann-benchmark-"))
    folder.chmod(0o755)  # the server's account must be able to enter
    server = LocalServer(embedded_installation() / "bin", folder / "server")
    servers._current = server
    try:
        server.start({})
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
