"""install.py: parse the command line, find the plug-in, hand it a release."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..configs import Config, read_configs
from ..definitions import DEFINITIONS_FOLDER, Definition, constructor_of
from ..errors import UserError
from ..plan import usable_configs
from .release import read_release

CACHE = Path("data/releases")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="install.py", description="Put a published release of what an algorithm needs onto this machine."
    )
    add = parser.add_argument
    add("--algorithm", metavar="NAME", help="install what this algorithm needs")
    add("--local", action="store_true", help="install for this machine itself instead of for Docker")
    release = parser.add_mutually_exclusive_group()
    release.add_argument(
        "--version", metavar="VERSION", help="the release to download (default: the one the project knows)"
    )
    release.add_argument(
        "--archive", metavar="FILE", type=Path, help="a release archive or .deb that you have already"
    )
    add(
        "--definitions",
        metavar="FOLDER",
        type=Path,
        default=DEFINITIONS_FOLDER,
        help="where the algorithms are: FOLDER/*/config.yml (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Install what the command line asks for, and say so on one line."""
    args = parse_arguments(arguments)
    if not args.local:
        raise UserError("images cannot be built yet; add --local to install for this machine")
    configs, broken = read_configs(args.definitions)
    if args.algorithm is None:
        names = [name for config in configs if _release_file(config).exists() for name in config.names()]
        raise UserError(
            f"name an algorithm with --algorithm; there are releases for: {', '.join(names) or '-'}"
        )
    configs, _ = usable_configs(configs, broken, args.algorithm)
    config = next(config for config in configs if args.algorithm in config.names())
    plugin = _plugin(config, args.algorithm)
    try:
        archive = args.archive or _download(plugin, config, args.algorithm, args.version)
        print(plugin.install_local(archive))
    except RuntimeError as error:  # how plug-ins, which know nothing of UserError, say what the user can mend
        raise UserError(str(error)) from None


def _release_file(config: Config) -> Path:
    return config.path.with_name("release.yml")


def _plugin(config: Config, algorithm: str) -> Any:
    """Import the class of an algorithm that has something to install."""
    lists = (entries for metrics in config.entries.values() for entries in metrics.values())
    entry = next(entry for entries in lists for entry in entries if entry["name"] == algorithm)
    texts = (entry["constructor"], entry["module"], entry["docker_tag"])
    try:
        plugin = constructor_of(Definition(algorithm, *texts, [], [], False))
    except ImportError as error:
        raise UserError(
            f"the plug-in of '{algorithm}' cannot be imported: {error}; pip install what it needs"
        ) from None
    if not hasattr(plugin, "install_local"):
        raise UserError(f"'{algorithm}' needs no local installation: run.py --local runs it as it is")
    return plugin


def _download(plugin: Any, config: Config, algorithm: str, version: str | None) -> Path:
    path = _release_file(config)
    if not path.exists():
        raise UserError(
            f"no release for '{algorithm}' is known to download: {plugin.local_state()}; "
            "--archive FILE puts one there that you have"
        )
    from .github import get_release  # its HTTP library takes long to import

    target = plugin.local_target()
    hint = (
        f"give a release archive or .deb that you have with --archive FILE, or {plugin.instead_of_installing}"
    )
    return get_release(read_release(path, version, target), target, CACHE / path.parent.name, hint)
