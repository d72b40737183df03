"""A bundle with series of all kinds of load, for tests of the checker: measured by one run of a plug-in."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .bundle_data import DATASET, TARGET, make_quiet, prepare, run

RATE, FILTER = 200, "uniform:0.2"
BATCH, OPEN, COLD = "part-batch", f"part-c2-r{RATE}", "part-c2-cold"
TURNS = "part-c1", "part-c2"
FILTERED = f"part-post5-filter-{FILTER.replace(':', '-')}"
LOADS: dict[Any, dict[str, Any]] = {
    BATCH: {"batch": True},
    OPEN: {"clients": 2, "rate": RATE, "duration": 0.5, "warmup": 10},
    COLD: {"clients": 2, "duration": 0.2, "warmup": "off"},
    FILTERED: {"filter": FILTER, "post-filter": 5},
    TURNS: {"clients": "1,2", "rounds": 3, "target-recall": TARGET, "duration": 0.2},
}


@cache
def measured_loads() -> Path:
    """Return a folder in which each load was measured, and a bundle made, once for all tests of a process."""
    folder = Path(tempfile.mkdtemp(prefix="ann-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    prepare(folder)
    run(folder, "create_dataset.py", "--add-filters", DATASET, "--filters", FILTER)
    common = {"algorithm": "part", "dataset": DATASET}
    steps = [
        {"name": f"load{number}", "title": f"Load {number}", "run": {**common, **how}}
        for number, how in enumerate(LOADS.values())
    ]
    (folder / "loads.yml").write_text(yaml.safe_dump({"title": "Loads", "steps": steps}))
    how = ["--local", "--definitions", "plugins", "--runs", 3]
    run(folder, "run.py", *how, "--experiment", "loads.yml")
    make_quiet(folder)
    run(folder, "report.py", "--dataset", DATASET, "--bundle", "bundle", "--target-recall", TARGET)
    return folder


def copied_loads(folder: Path) -> Path:
    """Return an honest bundle of its own, to be tampered with."""
    return Path(shutil.copytree(measured_loads() / "bundle", folder / "bundle"))
