"""release.yml: where an algorithm's built releases are."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from ann_benchmarks.common.errors import UserError

_KEYS = {"github", "version", "asset"}


@dataclass(frozen=True)
class Release:
    """One version of what a repository publishes; `asset` is a file's name with {version} and more in it."""

    repository: str
    version: str
    asset: str

    def asset_for(self, target: Mapping[str, str]) -> str:
        """Name the file for a target, such as {"machine": "x86_64"}."""
        return self.asset.format(version=self.version, **target)

    def is_asset(self, name: str) -> bool:
        """Whether a file is that of this version, for whatever target."""
        parts = re.split(r"(\{\w+\})", self.asset)
        known = {"{version}": re.escape(self.version)}
        pattern = "".join(
            known.get(part, ".+") if part.startswith("{") else re.escape(part) for part in parts
        )
        return re.fullmatch(pattern, name) is not None


def read_release(path: Path, version: str | None, target: Mapping[str, str]) -> Release:
    """Read a release.yml, with this version in place of its own; UserError names its mistakes."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or set(content) != _KEYS:
        raise UserError(f"{path} must have the lines github: OWNER/NAME, version: ..., asset: ...")
    for key, value in content.items():
        if not isinstance(value, str):
            raise UserError(f"{path}: '{key}' must be a text: write {key}: '{value}'")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", content["github"]):
        raise UserError(f"{path}: 'github' must be OWNER/NAME, not '{content['github']}'")
    chosen = content["version"] if version is None else version
    if not re.fullmatch(r"\w[\w.+-]*", chosen):
        raise UserError(f"'{chosen}' is no version of a release; give one such as {content['version']}")
    release = Release(content["github"], chosen, content["asset"])
    try:
        name = release.asset_for(target)
    except (KeyError, IndexError, ValueError):
        known = ", ".join(f"{{{key}}}" for key in ("version", *target))
        raise UserError(
            f"{path}: 'asset' may have {known} in it, not what it has: '{release.asset}'"
        ) from None
    if Path(name).name != name:
        raise UserError(f"{path}: 'asset' must be the name of a file, not '{name}'")
    return release
