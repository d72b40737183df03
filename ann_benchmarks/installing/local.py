"""install.py --local: the release of an algorithm for this machine, found, downloaded and checked.

A plug-in's release.yml names a repository on GitHub, a version and a file of it; a release.lock pins a wheel
that has it. What to do with the file is the plug-in's to know.
"""

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.data.download import DownloadRequest, fetch
from ann_benchmarks.data.download.server import Refused, Session, Temporary, read_all
from ann_benchmarks.definitions.configs import Config, read_configs
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.definitions.selection import config_warnings
from ann_benchmarks.definitions.tags import split_tag
from ann_benchmarks.plugin import PluginClass

from .wheels import get_wheel, pinned_wheel

CACHE = Path("data/releases")


def install_local(
    algorithm: str | None, version: str | None, archive: Path | None, definitions: Path
) -> None:
    """Install what an algorithm needs from a release, downloaded or `archive`, and report it on one line.

    NAME:TAG is a release next to the one that is there, as run.py then names it.
    """
    algorithm, tag = (None, None) if algorithm is None else split_tag(algorithm)
    if tag is not None and version is not None:
        raise UserError(f"--version {version} and the tag {tag} both name a release: leave one out")
    configs, broken = read_configs(definitions)
    if algorithm is None:
        names = [name for config in configs if _release_file(config) for name in config.names()]
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


def _release_file(config: Config) -> Path | None:
    files = (config.path.with_name(name) for name in ("release.yml", "release.lock"))
    return next((file for file in files if file.exists()), None)


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
    if path is None:
        raise UserError(
            f"no release for '{algorithm}' is known to download: {plugin.local_state()}; "
            "--archive FILE puts one there that you have"
        )
    target = plugin.local_target()
    hint = (
        f"give a release archive or .deb that you have with --archive FILE, or {plugin.instead_of_installing}"
    )
    folder = CACHE / path.parent.name
    if path.suffix == ".yml":
        return get_release(read_release(path, version, target), target, folder, hint)
    if version is not None:
        raise UserError(
            f"--version {version}: one version can be downloaded, in the wheel {pinned_wheel(path)}; {hint}"
        )
    return get_wheel(path, folder, hint)


_RELEASE_KEYS = ("github", "version", "asset")


@dataclass(frozen=True)
class PublishedRelease:
    """One version of what a repository publishes; `asset` is a file's name with {version} and more in it."""

    repository: str
    version: str
    asset: str

    def asset_for(self, target: Mapping[str, str]) -> str:
        """Name the file for a target, such as {"machine": "x86_64"}."""
        values = {"version": self.version, **target}
        return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], self.asset)

    def is_asset(self, name: str) -> bool:
        """Whether a file is that of this version, for whatever target."""
        parts = re.split(r"(\{\w+\})", self.asset)
        known = {"{version}": re.escape(self.version)}
        pattern = "".join(
            known.get(part, ".+") if part.startswith("{") else re.escape(part) for part in parts
        )
        return re.fullmatch(pattern, name) is not None


def read_release(path: Path, version: str | None, target: Mapping[str, str]) -> PublishedRelease:
    """Read a release.yml, with this version in place of its own; UserError names its mistakes."""
    file = YamlFile(path, "the lines github: OWNER/NAME, version: ..., asset: ...")
    content = file.content
    file.mapping((), content, "release.yml", _RELEASE_KEYS, _RELEASE_KEYS)
    for key, value in content.items():
        if not isinstance(value, str):
            file.fail((key,), f"'{key}' must be a text: write {key}: '{shown(value)}'")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", content["github"]):
        file.fail(("github",), f"'github' must be OWNER/NAME, not '{shown(content['github'])}'")
    chosen = content["version"] if version is None else version
    if not re.fullmatch(r"\w[\w.+-]*", chosen):
        raise UserError(
            f"'{shown(chosen)}' is no version of a release; give one such as {content['version']}"
        )
    release = PublishedRelease(content["github"], chosen, content["asset"])
    try:
        name = release.asset_for(target)
    except KeyError:
        known = ", ".join(f"{{{key}}}" for key in ("version", *target))
        file.fail(("asset",), f"'asset' may have {known} in it, not what it has: '{shown(release.asset)}'")
    if problem := name_problem(name):
        file.fail(("asset",), f"'asset' must be the name of a file, but '{shown(name)}' {problem}")
    return release


API = "https://api.github.com"
MOST_BYTES = 16 * 2**20  # of the list of a release's files


@dataclass(frozen=True)
class Asset:
    """A file of a release."""

    name: str
    size: int
    url: str
    checksum: str  # "sha256:HEX", "" where GitHub has none, as for older releases


def get_release(release: PublishedRelease, target: Mapping[str, str], folder: Path, hint: str) -> Path:
    """Have the file of a release that is for `target` in `folder`.

    UserError says why it cannot be had, with `hint` as what the user may do instead.
    """
    asset = _choose(release, target, _assets(release, hint))
    path = folder / asset.name
    if path.exists() and not _is_whole(path, asset):
        path.unlink()
    if not asset.checksum:
        print(f"note: GitHub has no checksum of {asset.name}; its size alone is checked", file=sys.stderr)
    fetch([DownloadRequest(asset.url, path, size=asset.size, checksum=asset.checksum)], hint=hint)
    return path


def _assets(release: PublishedRelease, hint: str) -> list[Asset]:
    url = f"{API}/repos/{release.repository}/releases/tags/{release.version}"
    try:
        with Session() as session:
            answer = b"".join(read_all(session, url, MOST_BYTES))
        return [_asset(entry) for entry in json.loads(answer)["assets"]]
    except Refused as refused:
        if " 404 " in f"{refused} ":
            raise UserError(
                f"{release.repository} has no release {release.version}: "
                f"choose another one with --version, or {hint}"
            ) from None
        raise UserError(f"{url} was refused: {refused}; try later, or {hint}") from None
    except Temporary as error:
        raise UserError(f"{url} does not answer: {error}; try again, or {hint}") from None
    except (ValueError, TypeError, KeyError):
        raise UserError(
            f"{url} does not answer with the files of a release (a proxy's page?); {hint}"
        ) from None


def _asset(entry: Any) -> Asset:
    name, size, url = entry["name"], entry["size"], entry["browser_download_url"]
    digest = entry.get("digest") or ""
    if not (isinstance(size, int) and all(isinstance(text, str) for text in (name, url, digest))):
        raise TypeError
    return Asset(name, size, url, digest if re.fullmatch("sha256:[0-9a-fA-F]{64}", digest) else "")


def _choose(release: PublishedRelease, target: Mapping[str, str], assets: list[Asset]) -> Asset:
    name = release.asset_for(target)
    for asset in assets:
        if asset.name == name:
            return asset
    names = sorted(asset.name for asset in assets)
    similar = [other for other in names if release.is_asset(other)] or names
    has = f"its files are: {', '.join(similar)}" if similar else "it has no files"
    raise UserError(f"release {release.version} of {release.repository} has no {name}; {has}")


def _is_whole(path: Path, asset: Asset) -> bool:
    if not path.is_file() or path.stat().st_size != asset.size:
        return False
    return asset.checksum.lower() in ("", f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")
