"""The project's programs as a user starts them, and folders for their servers."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
PATIENCE = float(os.environ.get("ANN_BENCHMARKS_TEST_PATIENCE", "1"))  # how many times slower a machine is


def run_program(name: str, *arguments: object, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run run.py, plot.py ... in the current folder or in `cwd`; options are those of subprocess.run."""
    command = [sys.executable, str(ROOT / name), *map(str, arguments)]
    return subprocess.run(
        command, **{"capture_output": True, "text": True, "timeout": 300 * PATIENCE, **options}
    )


def write_config(folder: Path, name: str, **keys: Any) -> None:
    """Write the config.yml of one algorithm, in a plug-in's folder; `keys` are what is not as usual."""
    entry = {"name": name, "module": f"plugins.{name}", "constructor": "Plugin"}
    entry |= {"docker_tag": f"ann-benchmarks-{name}", "run_groups": {"all": {"args": []}}, **keys}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yml").write_text(yaml.safe_dump({"float": {"any": [entry]}}))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for the time of the block, which the account that runs a server can enter."""
    with tempfile.TemporaryDirectory(prefix="ann-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
