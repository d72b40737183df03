"""The context of a build, and the Dockerfiles in it.

The context is what a Dockerfile can COPY, as a tar that is the same for the same files. What a Dockerfile
starts from, and its arguments, have to be known before it is built.
"""

import hashlib
import io
import json
import os
import re
import shlex
import ssl
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.files import read_regular
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER, IS_CHECKOUT, PACKAGE, PROJECT

SHARE = "ann_benchmarks/share"  # for people, not for images
ALGORITHMS = "ann_benchmarks/algorithms"  # there in the context, as in ann-benchmarks
AT_ROOT = ("*.py", "*.lock", "pyproject.toml", "LICENSE")
_LEFT_OUT = {"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
# One time for all: the first that archives such as Python's wheels can hold, in every time zone.
_TIME = 315_619_200


def write_context(
    file: BinaryIO, definitions: Path, certificates: Mapping[str, bytes], packages: Iterable[Path]
) -> None:
    """Write the tar: the framework, its plug-ins and those in `definitions`, certificates and packages."""
    plugins = {path.name: path for folder in (DEFINITIONS_FOLDER, definitions) for path in _plugins(folder)}
    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            at_root = AT_ROOT if IS_CHECKOUT else ()
            for path in sorted(path for pattern in at_root for path in PROJECT.glob(pattern)):
                _add(tar, path.name, path)
            _add(tar, PACKAGE.name, PACKAGE)
            _add_folder(tar, ALGORITHMS)
            for name, path in sorted(plugins.items()):
                _add(tar, f"{ALGORITHMS}/{name}", path)
            _add_folder(tar, "ca-certificates")
            for name, content in sorted(certificates.items()):
                entry = tarfile.TarInfo(f"ca-certificates/{name}")
                entry.size = len(content)
                tar.addfile(_reproducible(entry), io.BytesIO(content))
            _add_folder(tar, "packages")
            for path in sorted(packages, key=lambda path: path.name):
                _add(tar, f"packages/{path.name}", path)
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read for the build: {error.strerror}") from None


def _plugins(folder: Path) -> Iterator[Path]:
    """The folders of plug-ins, and the few files next to them."""
    for path in folder.iterdir():
        if path.name not in _LEFT_OUT and (path.suffix == ".py" or path.is_dir()):
            yield path


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    # A plug-in's own folder may be a link to where it is developed; links inside stay what they are.
    tar.add(path.resolve(), name, filter=_kept)


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    tar.addfile(_reproducible(entry))


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return the entry of a file, a folder or a link that is part of a build."""
    is_left_out = entry.name.rpartition("/")[2] in _LEFT_OUT or entry.name.endswith(".pyc")
    is_left_out |= entry.name in (ALGORITHMS, SHARE)  # plug-ins are added one by one
    is_kept = not is_left_out and (entry.isreg() or entry.isdir() or entry.issym())
    return _reproducible(entry) if is_kept else None


def _reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry without the owner and the time of the file."""
    may_run = entry.isdir() or bool(entry.mode & 0o100)
    entry.mode = 0o777 if entry.issym() else 0o755 if may_run else 0o644
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = _TIME
    return entry


# What a Dockerfile says of an argument for which a file has to be given.
_PACKAGE = re.compile(r"^# needs (\w+): (.+)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")


@dataclass(frozen=True)
class Dockerfile:
    """Its FROM lines with their stages' names, and its ARGs."""

    stages: tuple[tuple[str, str], ...]  # (image, name or "")
    values: Mapping[str, str]  # of the ARGs, by default
    defaults: Mapping[str, str]  # those before the first FROM alone
    packages: Mapping[str, str]  # ARGs for which a file has to be given, and what it is

    @property
    def arguments(self) -> frozenset[str]:
        """Names of the ARGs."""
        return frozenset(self.values)

    def bases(self, arguments: Mapping[str, str]) -> list[str]:
        """Images that its stages start from, each resolved with these arguments; the last is the result's."""
        values = {**self.defaults, **{k: v for k, v in arguments.items() if k in self.defaults}}
        known: dict[str, str] = {}
        bases = []
        for image, name in self.stages:
            image = _VARIABLE.sub(lambda match: values.get(match[1] or match[2]) or match[3] or "", image)
            image = known.get(image.lower(), image)
            known[name.lower()] = image
            bases.append(image)
        return bases


def read_dockerfile(path: Path) -> Dockerfile:
    """Read a Dockerfile; UserError when it cannot be, or starts from nothing."""
    stages: list[tuple[str, str]] = []
    arguments: dict[str, str] = {}
    defaults: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8")
        for word, rest in _instructions(text):
            if word == "FROM":
                image, *name = [part for part in rest.split() if not part.startswith("--")]
                stages.append((image, name[1] if len(name) == 2 else ""))
            elif word == "ARG":
                pairs = dict(part.partition("=")[::2] for part in shlex.split(rest, comments=True))
                arguments |= pairs
                defaults |= {} if stages else pairs
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    if not stages:
        raise UserError(f"{path} has no FROM line")
    packages = dict(_PACKAGE.findall(text))
    return Dockerfile(tuple(stages), arguments, defaults, packages)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield each instruction in capitals with what follows it, lines that go on joined."""
    begun = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        word, _, rest = begun.strip().partition(" ")
        yield word.upper(), rest.strip()
        begun = ""


MOST_BYTES = 4 << 20  # of a file with certificates
# Docker knows these without an ARG, and neither its cache nor an image's history depends on them.
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy")
_PACKAGE_FILE = re.compile(r"\.(deb|zip|whl|tar|tgz|tar\.\w+)$")
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
            raise UserError(f"'{text}' is not a build argument: write NAME=VALUE")
        packages.pop(name, None)
        values.pop(name, None)
        if not equals and name not in environment:
            continue  # Docker, too, takes the Dockerfile's own default
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
    is_package = _PACKAGE_FILE.search(value) is not None and "://" not in value
    if not is_package and "/" not in value:
        return None  # a version, even where a file happens to be called so
    path = Path(value).expanduser()
    if path.is_file():
        return path
    if is_package:
        raise UserError(f"the file {value}, which a build argument names, does not exist")
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


VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def ca_bundle(option: str | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, str] | None:
    """The bundle, and who named it: the option, else the environment; None for none."""
    if option is not None:
        return None if option == "none" else (Path(option), "--ca-bundle")
    return next(((Path(environment[name]), name) for name in VARIABLES if environment.get(name)), None)


def read_certificates(bundle: Path, named_by: str) -> dict[str, bytes]:
    """Split a bundle (a file, or a folder of them) into file name -> one certificate, each once."""
    try:
        files = sorted(path for path in bundle.iterdir() if path.is_file()) if bundle.is_dir() else [bundle]
        texts = [read_regular(path, MOST_BYTES).decode("ascii", errors="replace") for path in files]
    except OSError as error:
        raise UserError(
            f"{named_by}: {bundle} cannot be read: {error.strerror}; name a file of CA certificates with"
            " --ca-bundle, or --ca-bundle none"
        ) from None
    certificates = {}
    for block in (match[0] for text in texts for match in _CERTIFICATE.finditer(text)):
        try:
            content = ssl.PEM_cert_to_DER_cert(block)
        except ValueError:
            raise UserError(f"{named_by}: a certificate in {bundle} is damaged: {block[27:70]!r}") from None
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.crt"
        certificates[name] = ssl.DER_cert_to_PEM_cert(content).encode()
    if not certificates:
        raise UserError(
            f"{named_by}: {bundle} holds no certificate (-----BEGIN CERTIFICATE-----); name another file"
            " with --ca-bundle, or --ca-bundle none"
        )
    return certificates
