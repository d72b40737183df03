"""The project's programs as a user starts them, and folders for their servers."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def run_program(name: str, *arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run run.py, plot.py ... in the current folder or in `cwd`; options are those of subprocess.run."""
    command = [sys.executable, str(ROOT / name), *map(str, arguments)]
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": 300, **options})


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the time of the block, which the account that runs a server can enter."""
    with tempfile.TemporaryDirectory(prefix="ann-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
