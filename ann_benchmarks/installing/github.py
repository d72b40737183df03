"""Releases on GitHub: which files one has, and the right one of them, checked."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.download import DownloadRequest, fetch
from ann_benchmarks.data.download.server import Refused, Temporary, read_all

from .release import Release

API = "https://api.github.com"
MOST_BYTES = 16 * 2**20  # of the list of a release's files


@dataclass(frozen=True)
class Asset:
    """A file of a release."""

    name: str
    size: int
    url: str
    checksum: str  # "sha256:HEX", "" where GitHub has none, as for older releases


def get_release(release: Release, target: Mapping[str, str], folder: Path, hint: str) -> Path:
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


def _assets(release: Release, hint: str) -> list[Asset]:
    url = f"{API}/repos/{release.repository}/releases/tags/{release.version}"
    try:
        with requests.Session() as session:
            answer = b"".join(read_all(session, url, MOST_BYTES))
        return [_asset(entry) for entry in json.loads(answer)["assets"]]
    except Refused as refused:
        if " 404 " in f"{refused} ":
            raise UserError(
                f"{release.repository} has no release {release.version}: "
                f"choose another one with --version, or {hint}"
            ) from None
        raise UserError(f"cannot ask {url}: {refused}; try later, or {hint}") from None
    except Temporary as error:
        raise UserError(f"cannot ask {url}: {error}; try again, or {hint}") from None
    except (ValueError, TypeError, KeyError):
        raise UserError(
            f"{url} answers something else than the files of a release (a proxy's page?); {hint}"
        ) from None


def _asset(entry: Any) -> Asset:
    name, size, url = entry["name"], entry["size"], entry["browser_download_url"]
    digest = entry.get("digest") or ""
    if not (isinstance(size, int) and all(isinstance(text, str) for text in (name, url, digest))):
        raise TypeError
    return Asset(name, size, url, digest if re.fullmatch("sha256:[0-9a-fA-F]{64}", digest) else "")


def _choose(release: Release, target: Mapping[str, str], assets: list[Asset]) -> Asset:
    name = release.asset_for(target)
    for asset in assets:
        if asset.name == name:
            return asset
    names = sorted(asset.name for asset in assets)
    similar = [other for other in names if release.is_asset(other)] or names
    has = f"its files are: {', '.join(similar)}" if similar else "it has no files"
    raise UserError(f"release {release.version} of {release.repository} has no {name}; {has}")


def _is_whole(path: Path, asset: Asset) -> bool:
    content = path.read_bytes()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return len(content) == asset.size and asset.checksum.lower() in ("", digest)
