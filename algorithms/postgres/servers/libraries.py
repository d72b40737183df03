"""Where the libraries are that an extension loads; an installation keeps the folders for LD_LIBRARY_PATH."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import PostgresError
from ..variables import program_environment
from .account import server_account

WHEELS = ("lib*/lib64", "libcuvs_cu*.libs", "rapids_logger/lib64", "nvidia/*/lib")
TOOLKITS = ("cuda*/lib64", "cuda*/targets/*/lib")
SUFFIX = ".libraries"  # of the file, one folder a line
_PATH = "LD_LIBRARY_PATH"
_DRIVER = r"lib(?:cuda|nvidia-[a-z]+)\.so\.1"  # comes with the GPU


def library_folders(name: str, content: bytes) -> list[str]:
    """Return the folders, besides the loader's own, of what a library needs; PostgresError if some lack."""
    places = [Path(folder) for folder in os.environ.get(_PATH, "").split(":") if folder]
    places += [place for folder in sys.path for wheel in WHEELS for place in Path(folder or ".").glob(wheel)]
    places += [place for toolkit in TOOLKITS for place in Path("/usr/local").glob(toolkit)]
    folders = list(dict.fromkeys(str(place.absolute()) for place in places))
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(content)
        file.flush()
        environment = program_environment() | {_PATH: ":".join(folders)}
        try:
            done = subprocess.run(["ldd", file.name], env=environment, capture_output=True, check=False)
        except OSError:
            return []  # no loader like that of glibc
    printed = os.fsdecode(done.stdout)
    if missing := sorted(set(re.findall(rf"^\s*(?!{_DRIVER})(\S+) => not found", printed, re.MULTILINE))):
        raise PostgresError(
            f"{name} needs {', '.join(missing)}, which this machine lacks: `pip install libcuvs-cu13` (-cu12"
            f" for CUDA 12) in the version that it was built with, or name the folders in {_PATH}"
        )
    used = {str(Path(path).parent) for path in re.findall(r" => (/.+) \(0x", printed)}
    for folder in (folders := [folder for folder in folders if folder in used]):
        if not (account := server_account()).can_reach(Path(folder)):
            raise PostgresError(
                f"the server's account '{account.name}' cannot read {folder}, which {name} needs:"
                " have it in an environment that every account can read"
            )
    return folders


def library_path(installation: Path) -> dict[str, str]:
    """Return the variable of the loader for the programs of an installation."""
    files = sorted(installation.glob(f"*{SUFFIX}"))
    folders = [folder for file in files for folder in file.read_text().splitlines()]
    given = os.environ.get(_PATH)
    return {_PATH: ":".join([*folders, *([given] if given else [])])} if folders else {}
