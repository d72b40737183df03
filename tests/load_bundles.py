"""A bundle with series of all kinds of load, for tests of the checker: measured by one run of a plug-in."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from .bundle_data import DATASET, TARGET, make_quiet, prepare, run
from .programs import made_once

RATE, FILTER = 200, "uniform:0.2"
BATCH, OPEN, COLD, TURNS = "part-batch", f"part-c1-r{RATE}", "part-c1-cold", "part-c1"
FILTERED = f"part-filter-{FILTER.replace(':', '-')}"
ONE = {"part": {"one": {"args": [[8]], "query_args": [[800]]}}}  # point
LOADS: dict[str, dict[str, Any]] = {
    BATCH: {"run": {"batch": True}, "groups": ONE},
    OPEN: {"run": {"clients": 1, "rate": RATE, "duration": 0.4, "warmup": 10}, "groups": ONE},
    COLD: {"run": {"clients": 1, "target-recall": TARGET, "duration": 0.1, "warmup": "off"}},
    FILTERED: {"run": {"filter": FILTER}, "groups": ONE},
    TURNS: {"run": {"clients": 1, "rounds": 4, "duration": 0.1, "warmup": 10}},
}


def measured_loads() -> Path:
    """Return a folder in which each load was measured, and a bundle made, once for all tests."""
    return made_once(measure_loads)


def measure_loads(folder: Path) -> None:
    """Measure each load in a folder, and bundle it."""
    prepare(folder)
    run(folder, "create_dataset.py", "--add-filters", DATASET, "--filters", FILTER)
    common = {"algorithm": "part", "dataset": DATASET}
    steps = [
        {"name": f"load{number}", "title": f"Load {number}", **step, "run": {**common, **step["run"]}}
        for number, step in enumerate(LOADS.values())
    ]
    (folder / "loads.yml").write_text(yaml.safe_dump({"title": "Loads", "steps": steps}))
    how = ["--local", "--definitions", "plugins", "--runs", 3]
    run(folder, "run.py", *how, "--experiment", "loads.yml")
    make_quiet(folder)
    run(folder, "report.py", "--dataset", DATASET, "--bundle", "bundle", "--target-recall", TARGET)


def copied_loads(folder: Path) -> Path:
    """Return an honest bundle of its own, to be tampered with."""
    return Path(shutil.copytree(measured_loads() / "bundle", folder / "bundle"))
