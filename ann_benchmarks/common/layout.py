"""Where things are: what comes with the code, what the user has in the current folder; and the commands.

A checkout and an installed package have the same folders in ann_benchmarks/: in a checkout, `algorithms` and
those of `share` are links to the folders at its root. Data, results and reports are in the current folder.
"""

import grp
import os
import pwd
import re
import sys
from pathlib import Path
from typing import NamedTuple

from .errors import UserError

PACKAGE = Path(__file__).parents[1]  # ann_benchmarks
PROJECT = PACKAGE.parent  # Python finds the packages from here: the checkout, or site-packages
IS_CHECKOUT = (PACKAGE / "algorithms").is_symlink()
DEFINITIONS_FOLDER = (PACKAGE / "algorithms").resolve()
PROGRAM = "annpg"
DATA_VARIABLE = "ANN_BENCHMARKS_DATA"
_GROUP_WRITES, _OTHERS_WRITE = 0o020, 0o002


def shared(name: str) -> Path:
    """Return a file or a folder of those that come with the code: experiments, reference, prices, docs."""
    return (PACKAGE / "share" / name).resolve()


def find_file(path: Path) -> Path:
    """Return a path; where nothing is, and a file of this name comes along, that of this file."""
    return path if path.exists() or not shared(str(path)).is_file() else shared(str(path))


def data_folder() -> Path:
    """Return where datasets are: `data` in the current folder, as in ann-benchmarks, or as the user says."""
    given = os.environ.get(DATA_VARIABLE, "").strip()
    return Path(given).expanduser().resolve() if given else Path("data")


def own_algorithms() -> Path | None:
    """Return the current folder's `algorithms`, None where it has none, or is a checkout.

    Its plug-ins are imported: UserError where another account can write it.
    """
    folder = Path.cwd() / "algorithms"
    if not folder.is_dir() or folder.resolve() == DEFINITIONS_FOLDER or (folder / "base").exists():
        return None
    facts = folder.stat()
    is_shared = facts.st_mode & _OTHERS_WRITE or (
        facts.st_mode & _GROUP_WRITES and not _is_private_group(facts.st_gid)
    )
    if facts.st_uid not in (0, os.geteuid()) or is_shared:
        raise UserError(
            f"{folder} must be writable by you alone, because its plug-ins are run: chown or chmod go-w it,"
            " or change to another folder"
        )
    return folder


def _is_private_group(number: int) -> bool:
    """Whether a group has the user's name and no other members: many systems give each user one."""
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name == user and {*group.gr_mem} <= {user}


def definition_folders(folder: Path) -> list[Path]:
    """Return where plug-ins are: in a folder; those of the user are beside those that come along."""
    own = own_algorithms() if folder == DEFINITIONS_FOLDER else None
    return [folder] if own is None else [folder, own]


class Command(NamedTuple):
    """A command: its word after `annpg`, how a checkout calls it, its module, and what it is for."""

    name: str
    script: str
    module: str
    purpose: str


_OURS = "ann_benchmarks.commands"
COMMANDS = (
    Command("choose", "choose.py", f"{_OURS}.choose", "say which index fits a file of vectors"),
    Command("dataset", "create_dataset.py", f"{_OURS}.create_dataset", "make, get, list or check datasets"),
    Command("install", "install.py", "ann_benchmarks.installing.main", "install what an algorithm needs"),
    Command("run", "run.py", f"{_OURS}.run", "measure algorithms on a dataset, or carry out an experiment"),
    Command("plot", "plot.py", f"{_OURS}.plot", "draw the results of a dataset"),
    Command("report", "report.py", f"{_OURS}.report", "write a report on results"),
    Command("compare", "compare.py", f"{_OURS}.compare", "say what changed between two measurements"),
    Command("website", "create_website.py", f"{_OURS}.create_website", "make interactive pages of results"),
    Command("export", "data_export.py", f"{_OURS}.data_export", "write all results as CSV or Parquet"),
    Command("tiers", "-m tiers", "tiers.__main__", "measure on simulated smaller servers"),
    Command(
        *("submission", "-m ann_benchmarks.submission", "ann_benchmarks.submission.__main__"),
        "check a bundle of results",
    ),
    Command(
        *("programs", "-m algorithms.postgres", "ann_benchmarks.algorithms.postgres.__main__"),
        "print the folder of the embedded PostgreSQL's programs",
    ),
    Command(
        *("completion", "-m ann_benchmarks completion", f"{_OURS}.completion"),
        "print a script for Tab completion in a shell",
    ),
)
_NAMES = {command.script: command.name for command in COMMANDS}
_SCRIPT = re.compile(rf"(?<![\w./-])(?:python )?({'|'.join(map(re.escape, _NAMES))})(?![\w.]*\w)")


def rename_commands(text: str) -> str:
    """Return a text with commands as one types them here: `annpg run` for `python run.py` if installed."""
    return text if IS_CHECKOUT else _SCRIPT.sub(lambda match: f"{PROGRAM} {_NAMES[match[1]]}", text)


def typed_words() -> list[str]:
    """Return what the user has typed, with the name of the program instead of its path."""
    path = Path(sys.argv[0])
    program = ["-m", path.parent.name] if path.name == "__main__.py" else path.name.split()
    return [*([] if program[:1] == [PROGRAM] else ["python"]), *program, *sys.argv[1:]]
