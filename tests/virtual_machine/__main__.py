"""Makes the machine, runs the trials in it, and prints one line for each; logs are kept in a folder."""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from ann_benchmarks.common.cli import run_command
from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.text import say

from ..programs import ROOT, write_config
from .image import make_image
from .inside import NOT_THERE
from .machine import TIMED_OUT, Machine, started
from .trial import TEMPLATE, TRIALS

_WORDS = {0: "passed", NOT_THERE: "not there", TIMED_OUT: "failed: timed out"}


def main() -> int:
    """Run the trials that the options name; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.virtual_machine", description=__doc__)
    add = parser.add_argument
    add("--keep", metavar="FOLDER", type=Path, help="keep the image, which takes minutes, and the logs there")
    add("--only", metavar="NAME", nargs="+", default=list(TRIALS), help="trials whose names begin so")
    add("--kvm", action="store_true", help="use KVM, which makes all of this many times faster")
    args = parser.parse_args()
    chosen = chosen_trials(args.only)
    if args.keep:
        return try_all(args.keep, chosen, args.kvm)
    with tempfile.TemporaryDirectory(prefix="ann-benchmarks-machine-") as folder:
        return try_all(Path(folder), chosen, args.kvm)


def chosen_trials(names: list[str]) -> list[str]:
    """Return the trials that these names begin, in their order; UserError for a name that begins none."""
    for name in names:
        if not any(each.startswith(name) for each in TRIALS):
            raise UserError(f"unknown trial '{name}': {closest(name, TRIALS)}")
    return [each for each in TRIALS if any(each.startswith(name) for name in names)]


def try_all(folder: Path, chosen: list[str], has_kvm: bool) -> int:
    """Run trials in a machine; return 1 if one failed."""
    image = make_image(folder)
    logs = folder.resolve() / "logs"
    logs.mkdir(exist_ok=True)
    begun = time.monotonic()
    with started(image, logs / "console.log", has_kvm) as machine:
        say(f"started in {time.monotonic() - begun:.0f} s; logs in {logs}")
        send_project(machine)
        send_template(machine)
        failed = [name for name in chosen if not _passes(machine, name, logs)]
    return 1 if failed else 0


def send_project(machine: Machine) -> None:
    """Copy the project's files, without what git ignores, to where every account can read them."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    packing = ["tar", "-c", "--owner=0", "--group=0", "--exclude=.venv", "--null", "--files-from=-"]
    archive = subprocess.run(packing, cwd=ROOT, input=listed, capture_output=True, check=True)
    machine.send("root", archive.stdout, "/srv/project")


def send_template(machine: Machine) -> None:
    """Copy the dataset and the definition that work folders begin with."""
    from ..conftest import make_dataset  # which takes long to import

    groups = {"one": {"arg_groups": [{"M": 4, "efConstruction": 16}], "query_args": [[15]]}}
    plugin = {"module": "ann_benchmarks.algorithms.pgvector_hnsw", "constructor": "PGVectorHNSW"}
    keys = {"base_args": ["@metric"], "run_groups": groups, "docker_tag": "none", **plugin}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dataset("small", rows=2000, dimension=12, queries=50, folder=folder / "data")
        write_config(folder / "definitions/hnsw", "hnsw", **keys)
        packing = ["tar", "-c", "--owner=0", "--group=0", "data", "definitions"]
        archive = subprocess.run(packing, cwd=folder, capture_output=True, check=True)
    machine.send("root", archive.stdout, TEMPLATE)


def _passes(machine: Machine, name: str, logs: Path) -> bool:
    trial, log, begun = TRIALS[name], logs / f"{name}.log", time.monotonic()
    log.unlink(missing_ok=True)
    command = f"cd /srv/project && exec /opt/venv/bin/python -m tests.virtual_machine.inside {name}"
    status = machine.run(trial.account, command, log, 60 * trial.minutes)
    last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
    word = _WORDS.get(status, last if last.startswith("failed: ") else f"failed: status {status}")
    if status == NOT_THERE:
        word = last
    say(f"{name:36} {time.monotonic() - begun:5.0f} s  {word}")
    return status in (0, NOT_THERE)


if __name__ == "__main__":
    run_command(main)
