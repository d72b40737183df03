"""Arguments of builds: those of the command line, files among them, and the environment's proxies."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError, closest

# Docker knows these without an ARG, and neither its cache nor an image's history depends on them.
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_PACKAGE = re.compile(r"\.(deb|zip|whl|tar|tgz|tar\.\w+)$")
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")


@dataclass(frozen=True)
class BuildArguments:
    """Values by name, and the files whose names stand for them."""

    values: Mapping[str, str]
    packages: Mapping[str, Path]

    def only(self, names: Iterable[str]) -> "BuildArguments":
        """Leave out the arguments that a Dockerfile has no use for."""
        kept = {name: value for name, value in self.values.items() if name in names}
        return BuildArguments(kept, {name: path for name, path in self.packages.items() if name in kept})

    def having(self, name: str, package: Path) -> "BuildArguments":
        """Let an argument stand for a file."""
        return BuildArguments({**self.values, name: package.name}, {**self.packages, name: package})

    def __str__(self) -> str:
        """As JSON, for people and labels: without passwords in addresses."""
        return json.dumps({k: _PASSWORD.sub("***", v) for k, v in self.values.items()}, sort_keys=True)


def read_build_arguments(texts: Iterable[str], environment: Mapping[str, str] = os.environ) -> BuildArguments:
    """Read NAME=VALUE, or NAME for the environment's value; a VALUE that is a file is its name, and kept."""
    values: dict[str, str] = {}
    packages: dict[str, Path] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UserError(f"'{text}' is no build argument: write NAME=VALUE")
        packages.pop(name, None)
        values.pop(name, None)
        if not equals and name not in environment:
            continue  # as Docker does: the Dockerfile's own default
        values[name] = value if equals else environment[name]
        path = _package(values[name])
        if path is not None:
            values[name], packages[name] = path.name, path
    seen: dict[str, Path] = {}
    for path in packages.values():
        other = seen.setdefault(path.name, path)
        if not path.samefile(other):
            raise UserError(f"{other} and {path} have the same name: rename one of them")
    return BuildArguments(values, packages)


def _package(value: str) -> Path | None:
    is_package = _PACKAGE.search(value) is not None and "://" not in value
    if not is_package and "/" not in value:
        return None  # a version, even where a file happens to be called so
    path = Path(value).expanduser()
    if path.is_file():
        return path
    if is_package:
        raise UserError(f"there is no file {value}, which a build argument names")
    return None


def proxies(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The proxies that are set, as arguments that every build may be given."""
    names = (name for small in PROXIES for name in (small, small.upper()))
    return {name: environment[name] for name in names if environment.get(name)}


def check_used(given: BuildArguments, declared: Iterable[str]) -> None:
    """Refuse an argument that no Dockerfile declares: most likely it is misspelt, and would do nothing."""
    known = sorted(set(declared))
    for name in given.values:
        if name not in known and name.lower() not in PROXIES:
            hint = closest(name, known) if known else "they declare none"
            raise UserError(f"no Dockerfile that is to be built declares ARG {name}; {hint}")
