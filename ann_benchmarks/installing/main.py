"""install.py: parse the command line, and do what it requests."""

import argparse
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.common.cli import Parser, path, positive_int
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.text import say
from ann_benchmarks.definitions.configs import read_config

# By what they are for; each has a default that is filled in where it is used.
FOR_IMAGES = ("--proc", "--build-arg", "--base", "--mirror", "--ca-bundle", "--no-cache")
FOR_LOCAL = ("--version", "--archive")

Content = dict[str, tuple[bytes, bool]]  # path inside of a folder -> what the file holds, may it be executed

ALGORITHMS = Path("ann_benchmarks/algorithms")
CHECKOUT_MARKS = (
    "install.py",
    "run_algorithm.py",
    "ann_benchmarks/runner.py",
    f"{ALGORITHMS}/base/module.py",
)
SCRATCH = "ann_benchmarks/.export"
NOT_COPIED = ("__pycache__", "tests")
_IMPORTED = re.compile(r"^ *from \.{2,}(\w+)", re.MULTILINE)
_IMAGE_FOLDER = re.compile(rf"{ALGORITHMS}/(\w+)/")
_OUTCOMES = {
    "new": "copied, {files}",
    "same": "there already",
    "another": "left alone, because another one is there; to have this one, rm -r {place} and export again",
}
# ann-benchmarks' install.py takes every folder for an algorithm, and one without a Dockerfile for a failure.
SHARED_DOCKERFILE = b"""\
# What plug-ins share: built so that an install of everything does not fail on it.
FROM ann-benchmarks
"""


def export(folder: Path, definitions: Path, algorithm: str | None = None) -> None:
    """Copy the plug-ins of `definitions`, and what they share, into a checkout of ann-benchmarks.

    Each folder is copied whole or not at all, and nothing that is there is replaced; one line for each says
    so. With the name of an algorithm or of its folder, only that folder is copied, and what it needs: what a
    pull request of one algorithm consists of.
    """
    check_checkout(folder, definitions)
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # of an export that was killed
    try:
        contents = {path.name: content_of(path) for path in folders_to_copy(definitions)}
        only = None if algorithm is None else _folder_of(algorithm, contents, definitions)
        if only is not None:
            contents = _needed(only, contents)
        target = folder / ALGORITHMS
        states = {name: state_of(target / name, new) for name, new in contents.items()}
        plugins = [name for name, content in contents.items() if "config.yml" in content]
        plugins = plugins if only is None else [only]
        shared = [name for name in contents if name not in plugins]
        for name in shared:
            if states[name] == "another":
                raise UserError(
                    f"{target / name} is not as exported from here, and the plug-ins need the one of here:"
                    " rename or remove it, and export again"
                )
        for name, content in contents.items():
            if states[name] == "new":
                _put(content, name, folder)
            files = f"{len(content)} file{'s' * (len(content) > 1)}"
            print(f"{name}: {_OUTCOMES[states[name]].format(files=files, place=target / name)}")
    except OSError as error:
        raise UserError(f"cannot export to {folder}: {error.filename}: {error.strerror}") from None
    there = [name for name in plugins if states[name] != "another"]
    _say_what_is_next(folder, there)


def check_checkout(folder: Path, definitions: Path) -> None:
    """Refuse a folder that is not a checkout of ann-benchmarks, or that the plug-ins come from."""
    missing = [name for name in CHECKOUT_MARKS if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{folder} must be a checkout of ann-benchmarks, but has no {missing[0]}; get one with"
            " git clone https://github.com/erikbern/ann-benchmarks"
        )
    if (folder / ALGORITHMS).resolve() == definitions.resolve():
        raise UserError(f"{folder} is where the plug-ins are already")


def folders_to_copy(definitions: Path) -> list[Path]:
    """Every folder of plug-ins or of what they share, by name; ann-benchmarks has a `base` of its own."""
    marks = ("config.yml", "__init__.py")
    return [
        path
        for path in sorted(definitions.iterdir())
        if path.name not in ("base", *NOT_COPIED) and any((path / mark).is_file() for mark in marks)
    ]


def _folder_of(algorithm: str, contents: dict[str, Content], definitions: Path) -> str:
    """Return the name of an algorithm's folder; UserError where no plug-in has it."""
    plugins = [name for name, content in contents.items() if "config.yml" in content]
    if algorithm in plugins:
        return algorithm
    for name in plugins:
        if algorithm in read_config(definitions / name / "config.yml").names():
            return name
    raise UserError(f"'{shown(algorithm)}' cannot be exported; there are {', '.join(plugins)}")


def _needed(name: str, contents: dict[str, Content]) -> dict[str, Content]:
    """Return a folder and those that it needs, for what it imports or for the files of its image."""
    found, left = {name}, [name]
    while left:
        for inside, (data, _) in contents[left.pop()].items():
            pattern = _IMAGE_FOLDER if inside == "Dockerfile" else _IMPORTED
            is_read = inside == "Dockerfile" or inside.endswith(".py")
            named = set(pattern.findall(data.decode(errors="replace"))) if is_read else set()
            more = named & contents.keys() - found
            found |= more
            left += more
    return {each: content for each, content in contents.items() if each in found}


def content_of(folder: Path) -> Content:
    """Read what is copied of a folder, with what ann-benchmarks misses in it."""
    content = {}
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        is_left_out = any(part in NOT_COPIED or part.startswith(".") for part in inside.parts)
        if file.is_file() and not is_left_out and file.suffix != ".pyc":
            content[inside.as_posix()] = file.read_bytes(), bool(file.stat().st_mode & 0o100)
    if "config.yml" not in content:
        content.setdefault("Dockerfile", (SHARED_DOCKERFILE, False))
    return content


def state_of(place: Path, content: Content) -> str:
    """Say what is at a place: "new" (nothing), "same" as the content, or "another"."""
    if not (place.exists() or place.is_symlink()):
        return "new"
    return "same" if place.is_dir() and content_of(place) == content else "another"


def _put(content: Content, name: str, folder: Path) -> None:
    """Have the content in its place, whole or not at all."""
    place = folder / ALGORITHMS / name
    scratch = folder / SCRATCH
    try:
        for inside, (data, is_executable) in content.items():
            file = scratch / "new" / inside
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            if is_executable:
                file.chmod(file.stat().st_mode | 0o111)
        (scratch / "new").rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _say_what_is_next(folder: Path, names: list[str]) -> None:
    if not names:
        return
    algorithms = read_config(folder / ALGORITHMS / names[0] / "config.yml").names()
    print(f"next, in {folder} (docs/submitting.md says more):")
    for name in names:
        print(f"    python install.py --algorithm {name}")
    print(f"    python run.py --algorithm {algorithms[0]} --dataset random-xs-20-angular")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; the options of ann-benchmarks' install.py, by the same names."""
    parser = Parser(
        prog="install.py",
        description="Build Docker images of algorithms, or install what an algorithm needs on this machine.",
    )
    add = parser.add_argument
    add(
        "--algorithm",
        metavar="NAME[:TAG]",
        help="build only the image of this algorithm, tagged TAG (default: that of the variable LIBRARY, or"
        " else all)",
    )
    add("--proc", metavar="N", type=positive_int, help="images to build at the same time (default: 1)")
    add(
        "--build-arg",
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        help="arguments of the Dockerfiles; NAME alone takes the value from the environment, and a file such"
        " as ./extension.deb is copied into the build",
    )
    add(
        "--base",
        metavar="IMAGE",
        help="the image to start from, or 'debootstrap' to make it from Debian's archive if no registry can"
        " be reached (default: debian:trixie-slim)",
    )
    add(
        "--mirror",
        metavar="URL",
        help="Debian's archive, for debootstrap and apt (default: http://deb.debian.org)",
    )
    add(
        "--ca-bundle",
        metavar="FILE",
        help="CA certificates that the images trust, or 'none' (default: the first of"
        " SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, PIP_CERT that is set)",
    )
    add("--no-cache", action="store_true", help="do not use Docker's cache")
    add(
        "--export",
        metavar="DIR",
        type=path,
        help="instead of building, copy the plug-ins, or only that of --algorithm and what it needs, into "
        "this checkout of ann-benchmarks",
    )
    add("--local", action="store_true", help="install a published release on this machine instead")
    release = parser.add_mutually_exclusive_group()
    release.add_argument(
        "--version",
        metavar="VERSION",
        help="with --local: the release to download (default: a pinned one)",
    )
    release.add_argument(
        "--archive",
        metavar="FILE",
        type=path,
        help="with --local: the archive of a release that you have",
    )
    add(
        "--definitions",
        metavar="FOLDER",
        type=path,
        default=DEFINITIONS_FOLDER,
        help="where the algorithms are: FOLDER/*/config.yml (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line requests; return 1 when an image failed."""
    args = parse_arguments(arguments)
    check_options(args)
    if args.export is not None:
        from .main import export

        export(args.export, args.definitions, args.algorithm)
        return 0
    if args.local:
        from .local import install_local

        install_local(args.algorithm, args.version, args.archive, args.definitions)
        return 0
    # ann-benchmarks' CI names the image to build in this variable.
    if args.algorithm is None and (library := os.environ.get("LIBRARY")):
        say(f"only the image of {library} is built, which the variable LIBRARY names")
        args.algorithm = library
    from .images import build_images

    return build_images(args)


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    excluded: Sequence[str] = FOR_LOCAL
    what = "images; add --local, or give --build-arg"
    if args.export is not None:
        excluded, what = ("--local", *FOR_LOCAL, *FOR_IMAGES), "--export, which copies plug-ins"
    elif args.local:
        excluded, what = FOR_IMAGES, "--local, which builds no image"
    for option in excluded:
        if getattr(args, option[2:].replace("-", "_")):
            raise UserError(f"{option} does not go with {what}")
