"""Which wheels there are for the lock files: python -m tests.wheels

uv looks into the package index that it is configured for, and downloads descriptions only. The table has, for
each version of Python and each platform, the packages that have no wheel.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from .programs import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# uv's names; glibc 2.28 is that of Debian 10 and Red Hat 8.
PLATFORMS = {
    "Linux x86_64": "x86_64-manylinux_2_28",
    "Linux ARM": "aarch64-manylinux_2_28",
    "macOS ARM": "aarch64-apple-darwin",
    "macOS x86_64": "x86_64-apple-darwin",
}
MACOS = "15.0"
_MISSING = re.compile(r"([\w.-]+)(?:\{[^}]*\})?==\S+ has no (?:usable )?wheels")


def missing_wheels(lock: str, python: str, platform: str) -> list[str]:
    """Return the packages of a lock file that have no wheel; SystemExit says what else failed."""
    requirements, missing = _requirements(ROOT / lock), []
    while True:
        failure = _failure([text for name, text in requirements if name not in missing], python, platform)
        if not failure:
            return missing
        found = _MISSING.search(failure)
        if found is None:
            raise SystemExit(failure)
        missing.append(found[1])


def _requirements(lock: Path) -> list[tuple[str, str]]:
    """Each package's name, and its part of the file, hashes included."""
    parts = re.split(r"^(?=[a-z])", lock.read_text(), flags=re.MULTILINE)
    return [(re.split("[=;@ ]", part)[0], part) for part in parts if re.match("[a-z]", part)]


def _failure(requirements: list[str], python: str, platform: str) -> str:
    """Return what uv reports of these requirements; "" if all have wheels."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(requirements))
        file.flush()
        if not Path(sys.executable).with_name("uv").exists():
            raise SystemExit("error: uv must be beside this Python: make .venv/dev, and use .venv/bin/python")
        done = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("uv")), "pip", "compile", file.name),
                *("--quiet", "--no-deps", "--only-binary", ":all:", "--no-python-downloads"),
                *("--python-version", python, "--python-platform", PLATFORMS[platform]),
            ],
            env=os.environ | {"MACOSX_DEPLOYMENT_TARGET": MACOS},
            capture_output=True,
            text=True,
        )  # fmt: skip
    return " ".join(done.stderr.split()) or "uv failed" if done.returncode else ""


def table(lock: str) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {lock} | {' | '.join(PYTHONS)} |"
    yield f"| --- |{' --- |' * len(PYTHONS)}"
    cases = list(product(PLATFORMS, PYTHONS))
    with ThreadPoolExecutor(4) as pool:
        missing = list(pool.map(lambda case: missing_wheels(lock, case[1], case[0]), cases))
    found = dict(zip(cases, missing, strict=True))
    for platform in PLATFORMS:
        cells = [
            "none: " + ", ".join(names) if (names := found[platform, python]) else "all" for python in PYTHONS
        ]
        yield f"| {platform} | {' | '.join(cells)} |"


if __name__ == "__main__":
    for each in LOCKS:
        print("\n".join(table(each)), end="\n\n", flush=True)
