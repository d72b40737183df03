"""The files of a bundle: those of its manifest and no others; none leads out of it."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from ann_benchmarks.common.errors import one_line
from ann_benchmarks.common.names import LONGEST_FOLDER, name_problem

from ..manifest import MANIFEST, Manifest, sha256_of
from .rules import Findings

MOST_FILES = 50_000
MOST_BYTES = 50 << 30
DEEPEST = 12  # folders within each other
KNOWN_FILES = {MANIFEST, "README.md", "experiment.yml", "system.json", "prices.yml"}
KNOWN_FOLDERS = {"results", "truth", "report", "logs"}


def check_folder(folder: Path, manifest: Manifest, findings: Findings) -> list[str]:
    """Compare what lies in the folder with the manifest; return the paths of files that can be read."""
    there = dict(walk(folder, findings))
    named = manifest.files.keys()
    for path in sorted(named - there.keys()):
        findings.refuse(
            path, "files", "is in the manifest and not in the folder", "restore it, or write the bundle again"
        )
    for path in sorted(there.keys() - manifest.files.keys() - {MANIFEST}):
        findings.refuse(path, "files", "is in the folder and not in the manifest", "take it out")
    there_and_named = sorted(named & there.keys())
    for path in there_and_named:
        if PurePosixPath(path).parts[0] not in KNOWN_FOLDERS and path not in KNOWN_FILES:
            findings.refuse(path, "files", "is no part of a bundle", "take it out")
        promised = manifest.files[path]
        if there[path] != promised.bytes:
            what = f"has {there[path]:,} bytes, and {promised.bytes:,} in the manifest"
        elif sha256_of(folder / path) != promised.sha256:
            what = "has another SHA-256 than in the manifest"
        else:
            continue
        findings.refuse(path, "files", what, "it was changed: restore it, or write the bundle again")
    _check_cases(there, findings)
    return there_and_named  # a changed file is read, too: what else is wrong with it is said


def walk(folder: Path, findings: Findings) -> Iterator[tuple[str, int]]:
    """Yield each file below a folder with its size, without following links, in the order of their names."""
    waiting, seen, size = [folder], 0, 0
    while waiting:
        here = waiting.pop()
        with os.scandir(here) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = Path(entry.path).relative_to(folder).as_posix()
            shown = one_line(path.encode(errors="replace").decode())
            status = entry.stat(follow_symlinks=False)
            seen += 1
            size += status.st_size
            if seen > MOST_FILES or size > MOST_BYTES:
                findings.refuse(".", "files", "has too many files or bytes", "hand in parts of it")
                return
            if entry.is_symlink():
                findings.refuse(shown, "paths", "is a link", "put the file itself there")
            elif problem := name_problem(entry.name, LONGEST_FOLDER):
                findings.refuse(shown, "paths", f"has a name that {problem}", "give it another name")
            elif stat.S_ISDIR(status.st_mode):
                if path.count("/") >= DEEPEST:
                    findings.refuse(shown, "paths", "lies too deep", "leave it out")
                else:
                    waiting.append(Path(entry.path))
            elif not stat.S_ISREG(status.st_mode):
                findings.refuse(shown, "paths", "is no ordinary file", "take it out")
            else:
                yield path, status.st_size


def _check_cases(there: Mapping[str, int], findings: Findings) -> None:
    """Refuse names that are one name on some systems."""
    known: dict[str, str] = {}
    for path in sorted(there):
        other = known.setdefault(path.casefold(), path)
        if other != path:
            findings.refuse(path, "paths", f"differs from {other} in the case of letters only", "rename it")
