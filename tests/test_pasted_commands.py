"""The commands of the pages that one starts with, run as pasted: in order, in an empty folder, made small."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from .postgres_fixtures import clustered
from .programs import PATIENCE, ROOT
from .vector_files import lists, write_big_ann

pytestmark = pytest.mark.thorough
PAGES = ("README.md", "docs/choose.md", "docs/datasets.md", "docs/postgres.md")
COMMAND = re.compile(r" *((?:python|annpg|make|pip|export|\.) .*)")

# What makes commands small, by the words that it replaces. Each is used, or the test fails.
MINIATURES = {
    "make demo": "make -n --no-print-directory demo DEMO_DATASET=clustered-50k-96-euclidean"
    " | sed '/demo/s/$/ --rounds 1 --warmup 10/' | sh",
    "clustered-50k-96-euclidean": "clustered-500-8-euclidean",
    "(?<=choose) my.npy": " my.npy --clients 1 --warmup 10 --rounds 1",
    "(?<=--local) (?=--algorithm)": " --max-n-algorithms 1 --target-recall 0.5 ",
    "--until 5%": "--until 5% --rounds 1 --warmup 10",
    "--clients 1,32": "--clients 1,2 --warmup 10 --runs 1 --duration 0.3",
    "--clients 32 --slo p99:50ms": "--clients 2 --slo p50:20ms --runs 1 --duration 0.8",
    "query-scaling --mini": "query-scaling --mini --dataset clustered-500-8-euclidean --clients 1,2 --runs 1"
    " --duration 0.1 --target-recall 0.5",
    "(?<=--train my.npy) ": " --queries 20 ",
}
# What cannot run here, and why: a command with these words does not run.
NOT_HERE = {
    "pip install .": "tests/test_package.py installs the wheel",
    "install(.py)? --local": "downloads a release",
    "pgvector_hnsw:0.6.2": "needs that release, which is downloaded",
    "--algorithm vchord": "needs VectorChord, which is downloaded",
    "install.py --algorithm": "needs Docker: tests/test_docker_end_to_end.py",
    "tiers sweep": "takes the machine's memory: tests/test_tiers.py",
    "--workload writes": "has five phases of 5 s or more, on all cores: tests/test_workload_writing.py",
    "--rows ": "needs 8,000 rows: tests/test_samples.py",
    "choose my.npy$": "takes longer, and is README's without --mini",
    "db.example.org|me@host": "needs somebody's server",
    "deep10m": "downloads 3.8 GB",
    "deep1b": "downloads 384 GB, and needs other machines",
}


def read_commands(page: str) -> Iterator[str]:
    """Yield the commands of a page, those of its indented blocks and those in cells of tables."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^ {4}.*|^\|.*", text.replace("\\\n", " "), re.MULTILINE)
    codes = (code for line in lines for code in (re.findall("`([^`]+)`", line) if line[0] == "|" else [line]))
    for match in filter(None, map(COMMAND.fullmatch, codes)):
        yield re.sub(r" +#.*", "", match[1])


def make_folder(folder: Path) -> None:
    """Lay out what a user has: the scripts, an environment that is there already, and files of vectors."""
    for path in [*ROOT.glob("*.py"), *(ROOT / name for name in ("Makefile", "requirements.lock"))]:
        (folder / path.name).symlink_to(path)
    programs = folder / ".venv/bin"
    programs.mkdir(parents=True)
    for name, words in {"python": "", "annpg": " -m ann_benchmarks"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        (programs / name).chmod(0o755)
    (programs / "activate").write_text('PATH="$PWD/.venv/bin:$PATH"\n')
    (folder / ".venv/runtime").touch()
    rows = clustered(600, 8)
    np.save(folder / "my.npy", rows)
    np.save(folder / "queries.npy", rows[:20] + np.float32(0.01))
    pyarrow.parquet.write_table(pyarrow.table({"embedding": lists(rows)}), folder / "my.parquet")
    (folder / "parts").mkdir()
    for number, part in enumerate(np.split(rows, 2)):
        np.save(folder / f"parts/part_{number}.npy", part)
    write_big_ann(folder / "queries.fbin", rows[:20] + np.float32(0.01))
    write_big_ann(folder / "base.fbin", rows)


def shrink(command: str, unused: set[str]) -> str:
    """Return a command in miniature."""
    for words, fewer in MINIATURES.items():
        command, times = re.subn(words, lambda match, fewer=fewer: fewer, command)
        unused -= {words} if times else set()
    return command


def test_commands_run_as_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tmp_path.chmod(0o755)
    make_folder(tmp_path)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}/.venv/bin:{os.environ['PATH']}"}
    unused, failed = MINIATURES.keys() | NOT_HERE.keys(), []
    for page, command in ((at, command) for at in PAGES for command in read_commands(at)):
        begun = time.monotonic()
        if found := [words for words in NOT_HERE if re.search(words, command)]:
            unused -= set(found)
            small, said = command, f"not here: {NOT_HERE[found[0]]}"
        else:
            small = shrink(command, unused)
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path}
            done = subprocess.run(["bash", "-c", small], **options, env=environment, timeout=120 * PATIENCE)
            said = f"{done.returncode} after {time.monotonic() - begun:.1f} s"
            if done.returncode or "Traceback" in done.stdout:
                failed.append(f"{page}: {small}\n{done.stdout[-2000:]}")
        with capsys.disabled():
            print(f"{page}: {small}\n    {said}", flush=True)
    assert not failed, "\n\n".join(failed)
    assert not unused, "nothing has these words"
    for made in (
        "results/clustered-500-8-euclidean.png",
        "reports/choose-mini/report.html",
        "site/index.html",
    ):
        assert (tmp_path / made).exists(), made
