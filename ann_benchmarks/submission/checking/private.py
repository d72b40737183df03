"""Private facts that are left in a bundle: addresses, e-mail, home folders, keys."""

import ipaddress
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import h5py

from ann_benchmarks.common.errors import UserError

from ..files import opened
from .reading import opened_file
from .rules import Findings

MOST_BYTES = 64 << 20  # of a text
TEXTS = {".json", ".md", ".yml", ".yaml", ".html", ".csv", ".log", ".txt", ".svg", ""}
SHORTEST = 6  # characters of an address
BEFORE = 20  # characters before it, which may say that it is a version
ADVICE = "replace it, and write the bundle again"
_ADDRESS = re.compile(r"(?<![\w.\-+~])\d{1,3}(?:\.\d{1,3}){3}(?![\w.\-+~])")
_ADDRESS_6 = re.compile(r"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:.])")
_VERSION = re.compile(r"(?:version|release|tag|==)\W{0,4}$", re.IGNORECASE)  # before four numbers
_HOME = r"""/(?:home|Users|var/home)/(?!USER\b|user\b)[^/\s"'<>\\,;:)]+|/root/[\w.]"""
_SECRET = r"""(?:PGPASSWORD|password|passwd|secret|token)\s*[=:]\s*"""
_PATTERNS = {
    "an e-mail address": re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b"),
    "a home folder": re.compile(rf"(?<![\w.])(?:{_HOME})"),
    "a folder of Windows": re.compile(r"(?<!\w)[A-Z]:\\+Users\\+\w+"),
    "a hardware address": re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"),
    "a host name of a network": re.compile(
        r"(?<![\w.-])(?:ip-\d+-\d+-\d+-\d+\b"
        r"|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:internal|local|lan|corp|intranet)\b(?![.(]))"
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a password": re.compile(_SECRET + r"""(?!\*|""|''|null\b|none\b)["']?[^\s"'*<>,;]{4,}""", re.IGNORECASE),
    "a key of a cloud": re.compile(
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{30,}|\bhf_[A-Za-z0-9]{30,}"
    ),
}


def check_private(
    folder: Path, files: list[str], contact: str, versions: Collection[str], findings: Findings
) -> None:
    """Refuse what identifies a person or a network, but for the contact that was given.

    `versions` are those of software; some look like addresses.
    """
    known = {text for text in (contact, *versions) if text}
    for file in ["manifest.json", *files]:
        for what in dict.fromkeys(_in_file(folder / file, known)):
            findings.refuse(file, "private", f"has {what} in it", ADVICE)


def private_facts(text: str, known: Collection[str] = ()) -> Iterator[str]:
    """Yield what a text has of such facts: the kind, never the fact; `known` are texts that may be there."""
    for one in known:
        text = text.replace(one, "")
    for kind, pattern in _PATTERNS.items():
        if pattern.search(text):
            yield kind
    for pattern in (_ADDRESS, _ADDRESS_6):
        for match in pattern.finditer(text):
            before = text[max(match.start() - BEFORE, 0) : match.start()]
            if _is_address(match[0]) and not _VERSION.search(before):
                yield "a network address"
                break


def _is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    is_of_none = address.is_loopback or address.is_unspecified or address.is_multicast
    # A short one is a cast of SQL or a name of C++ more often, such as 1::2.
    return not is_of_none and not text.startswith("0.") and len(text) >= SHORTEST


def _in_file(path: Path, known: Collection[str]) -> Iterator[str]:
    if path.suffix == ".hdf5":
        try:
            with opened_file(path) as file:
                yield from _in_member(file, known)
        except UserError:
            return  # which the reading of results says
    elif path.suffix in TEXTS:
        with opened(path) as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            yield f"more than {MOST_BYTES >> 20} MiB of text, which are not searched,"
        yield from private_facts(text.decode(errors="replace"), known)


def _in_member(member: Any, known: Collection[str]) -> Iterator[str]:
    """Yield the facts in the attributes and texts of a group and all that is below it."""
    texts = [f"{name} {_as_text(value)}" for name, value in member.attrs.items()]
    names = [*member] if isinstance(member, h5py.Group) else []
    yield from private_facts("\n".join([*texts, *names]), known)
    if isinstance(member, h5py.Group):
        for name in names:
            yield from _in_member(member[name], known)
    elif member.dtype.kind in "OSU" and member.size:
        yield from private_facts(_as_text(member[()]), known)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("O", "S", "U"):
        return " ".join(_as_text(one) for one in value.ravel())
    return ""
