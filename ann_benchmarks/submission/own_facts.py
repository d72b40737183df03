"""What this machine and its user are called, and where they keep things: what nobody else needs to read."""

import getpass
import ipaddress
import os
import pwd
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ann_benchmarks.common.layout import PROJECT

HOST, USER, ADDRESS, PATH, SECRET = "host", "user", "address", "path", "secret"
REPOSITORY = "repository"  # its paths keep what follows: the project's own files
# Paths that every machine has.
_COMMON_PATHS = re.compile(
    r"/(usr|bin|sbin|lib\w*|etc|dev(?!/shm/)|proc|sys|run(?!/user/)|opt|var/(run|lib|log|cache))?(/|$)"
)
_SECRETS = re.compile(
    "TOKEN|SECRET|PASS|PWD|_PAT$|COOKIE|CREDENTIAL|(API|ACCESS)_?KEY|PRIVATE|AUTH(?!OR)|DSN"
)
_HOSTS, _USERS = re.compile(r"HOST(NAME|ADDR)?$"), re.compile(r"(USER(NAME)?|LOGNAME)$")


@dataclass(frozen=True)
class OwnFact:
    """A text that is private, its kind, and the variable that has it."""

    kind: str
    text: str
    name: str = ""


def facts_here() -> list[OwnFact]:
    """Return what is private on this machine, each once, the longest first.

    Host names, the names of the account and of the person behind it, the home folder, the current one and
    that of the project, addresses of interfaces, and values of environment variables by their names.
    """
    found = [
        *(OwnFact(HOST, name) for name in _host_names()),
        *_accounts(os.environ),
        *(OwnFact(ADDRESS, address) for address in _addresses()),
        *_read_environment(os.environ),
        *(OwnFact(PATH, text) for text in _folders()),
        *(OwnFact(REPOSITORY, text) for text in dict.fromkeys((str(PROJECT), os.path.realpath(PROJECT)))),
    ]
    # A folder may be the home, the current one and the project's: the last is the most telling.
    kinds = {fact.text: fact for fact in found if _is_private(fact)}
    return [kinds[text] for text in sorted(kinds, key=lambda text: (-len(text), text))]


def _is_private(fact: OwnFact) -> bool:
    text = fact.text
    is_of_kind = {
        PATH: text.startswith("/") and not _COMMON_PATHS.match(text),
        REPOSITORY: text != "/",
        **dict.fromkeys((HOST, ADDRESS), not is_everywhere(text)),
    }
    return bool(text.strip()) and len(text) <= 4000 and is_of_kind.get(fact.kind, True)


def is_everywhere(address: str) -> bool:
    """Whether an address, or the name of a host, is the same on every machine: loopback, localhost."""
    with suppress(ValueError):
        found = ipaddress.ip_address(address.strip("[]").partition("%")[0])
        return (
            found.is_loopback or found.is_unspecified or found.is_multicast or str(found).startswith("255.")
        )
    return address.lower().startswith(("localhost", "ip6-")) or address in ("", "*", "0", "broadcasthost")


def _host_names() -> Iterator[str]:
    names = {socket.gethostname(), os.uname().nodename}
    with suppress(OSError):
        names.add(socket.getfqdn())
    with suppress(OSError):  # what the machine calls itself there
        for line in Path("/etc/hosts").read_text(errors="replace").splitlines():
            words = line.partition("#")[0].split()[1:]
            names |= set(words) if names & set(words) else set()
    yield from names
    yield from {name.partition(".")[0] for name in names}


def _accounts(environ: Mapping[str, str]) -> Iterator[OwnFact]:
    names = {environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    with suppress(OSError, KeyError):
        names.add(getpass.getuser())
    entries = []
    with suppress(KeyError):
        entries.append(pwd.getpwuid(os.getuid()))
    for name in filter(None, names):
        with suppress(KeyError):
            entries.append(pwd.getpwnam(name))
    for entry in entries:
        names.add(entry.pw_name)
        yield OwnFact(USER, entry.pw_gecos.partition(",")[0].strip())
        yield OwnFact(PATH, entry.pw_dir)
    yield from (OwnFact(USER, name) for name in names)


def _addresses() -> Iterator[str]:
    with suppress(OSError):
        for interface in psutil.net_if_addrs().values():
            for one in interface:
                address = one.address.partition("%")[0]
                if address.strip("0:"):  # a loopback interface's hardware has none
                    yield address


def _folders() -> Iterator[str]:
    with suppress(OSError):
        yield from (str(Path.cwd()), os.path.realpath("."))
    with suppress(OSError, RuntimeError):
        yield from (str(Path.home()), os.path.realpath(Path.home()))


def _read_environment(environ: Mapping[str, str]) -> Iterator[OwnFact]:
    for name, value in environ.items():
        word = name.upper()
        if value.startswith(("/", "~/")) or "=/" in value:
            yield from (OwnFact(PATH, text.rstrip("/")) for text in _paths_of(value))
        elif _SECRETS.search(word):
            yield OwnFact(SECRET, value, name)
        elif _HOSTS.search(word):
            yield OwnFact(HOST, host_of(value))
        elif _USERS.search(word):
            yield OwnFact(USER, value)


def host_of(address: str) -> str:
    """Return the host of an address such as db:5432, [::1]:5432 or tcp://user@db:1/."""
    text = re.sub(r"^\w+://", "", address).partition("/")[0].rpartition("@")[2]
    return re.sub(r":\d*$", "", text) if text.count(":") == 1 or "]" in text else text


def _paths_of(value: str) -> Iterable[str]:
    """Return the absolute paths of a variable's value that are two folders deep."""
    return [text for text in re.split(r"[:;,=\s]", value) if text.startswith("/") and text.count("/") > 1]
