"""What the user gives builds: arguments, files and proxies among them, and CA certificates."""

import hashlib
import json
import os
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.files import read_regular

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
