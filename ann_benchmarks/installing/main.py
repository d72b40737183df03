"""install.py: parse the command line, and do what it requests."""

import argparse
import os
from collections.abc import Sequence

from ann_benchmarks.common.cli import Parser, path, positive_int
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.text import say

# By what they are for; each has a default that is filled in where it is used.
FOR_IMAGES = ("--proc", "--build-arg", "--base", "--mirror", "--ca-bundle", "--no-cache")
FOR_LOCAL = ("--version", "--archive")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; the options of ann-benchmarks' install.py, by the same names."""
    parser = Parser(
        prog="install.py",
        description="Build the Docker images of algorithms, or install what one needs on this machine.",
    )
    add = parser.add_argument
    add(
        "--algorithm",
        metavar="NAME[:TAG]",
        help="build this algorithm's image alone, tagged TAG (default: that of the variable LIBRARY, else"
        " every one that has a Dockerfile)",
    )
    add("--proc", metavar="N", type=positive_int, help="images to build at the same time (default: 1)")
    add(
        "--build-arg",
        metavar="NAME=VALUE",
        nargs="+",
        action="extend",
        help="arguments of the Dockerfiles; NAME alone takes the value from the environment, and a file such"
        " as ./extension.deb is handed to the build",
    )
    add(
        "--base",
        metavar="IMAGE",
        help="the image to start from, or 'debootstrap' to make it from Debian's archive, for where no"
        " registry can be reached (default: debian:trixie-slim)",
    )
    add(
        "--mirror",
        metavar="URL",
        help="Debian's archive, for debootstrap and apt (default: http://deb.debian.org)",
    )
    add(
        "--ca-bundle",
        metavar="FILE",
        help="CA certificates that the images are to trust, 'none' for none (default: the first of"
        " SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, PIP_CERT that is set)",
    )
    add("--no-cache", action="store_true", help="build everything anew")
    add(
        "--export",
        metavar="DIR",
        type=path,
        help="copy the plug-ins, or that of --algorithm with what it needs, into the ann-benchmarks checkout"
        " DIR instead",
    )
    add("--local", action="store_true", help="install a published release for this machine itself instead")
    release = parser.add_mutually_exclusive_group()
    release.add_argument(
        "--version",
        metavar="VERSION",
        help="with --local: the release to download (default: the one the project knows)",
    )
    release.add_argument(
        "--archive",
        metavar="FILE",
        type=path,
        help="with --local: a release archive or .deb that you have already",
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
        from .export import export

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
