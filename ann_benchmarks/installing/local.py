"""install.py --local: find the plug-in, hand it a release for this machine."""

from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.configs import Config, read_configs
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.definitions.selection import config_warnings
from ann_benchmarks.definitions.tags import split_tag
from ann_benchmarks.plugin import PluginClass

from .release import read_release

CACHE = Path("data/releases")


def install_local(
    algorithm: str | None, version: str | None, archive: Path | None, definitions: Path
) -> None:
    """Install what an algorithm needs from a release, downloaded or `archive`, and say so on one line.

    NAME:TAG is a release beside the one that is there, as run.py then names it.
    """
    algorithm, tag = (None, None) if algorithm is None else split_tag(algorithm)
    if tag is not None and version is not None:
        raise UserError(f"--version {version} and the tag {tag} both name a release: leave one out")
    configs, broken = read_configs(definitions)
    if algorithm is None:
        names = [name for config in configs if _release_file(config).exists() for name in config.names()]
        raise UserError(
            f"name an algorithm with --algorithm; there are releases for: {', '.join(names) or '-'}"
        )
    config_warnings(configs, broken, algorithm)
    config = next(config for config in configs if algorithm in config.names())
    plugin = _plugin(config, algorithm)
    try:
        if tag is not None:
            print(plugin.install_version(tag, archive))
        else:
            print(plugin.install_local(archive or _download(plugin, config, algorithm, version)))
    except RuntimeError as error:  # how plug-ins, which know nothing of UserError, say what the user can mend
        raise UserError(str(error)) from None


def _release_file(config: Config) -> Path:
    return config.path.with_name("release.yml")


def _plugin(config: Config, algorithm: str) -> PluginClass:
    """Import the class of an algorithm that has something to install."""
    lists = (entries for metrics in config.entries.values() for entries in metrics.values())
    entry = next(entry for entries in lists for entry in entries if entry["name"] == algorithm)
    texts = (entry["constructor"], entry["module"], entry["docker_tag"])
    try:
        plugin = plugin_class(Definition(algorithm, *texts, [], [], False))
    except ImportError as error:
        raise UserError(
            f"the plug-in of '{algorithm}' cannot be imported: {error}; pip install what it needs"
        ) from None
    if not plugin.can_be_installed:
        raise UserError(f"'{algorithm}' needs no local installation: run.py --local runs it as it is")
    return plugin


def _download(plugin: PluginClass, config: Config, algorithm: str, version: str | None) -> Path:
    path = _release_file(config)
    if not path.exists():
        raise UserError(
            f"no release for '{algorithm}' is known to download: {plugin.local_state()}; "
            "--archive FILE puts one there that you have"
        )
    from .github import get_release

    target = plugin.local_target()
    hint = (
        f"give a release archive or .deb that you have with --archive FILE, or {plugin.instead_of_installing}"
    )
    return get_release(read_release(path, version, target), target, CACHE / path.parent.name, hint)
