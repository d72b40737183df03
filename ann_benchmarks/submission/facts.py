"""What is private: what this machine and its user are called, and what is by its form, whosever it is."""

import getpass
import ipaddress
import os
import pwd
import re
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from ann_benchmarks.common.layout import PROJECT

from .files import PLACEHOLDER

HOST, USER, ADDRESS, PATH, SECRET = "host", "user", "address", "path", "secret"
# Paths that every machine has.
_COMMON_PATHS = re.compile(
    r"/(usr|bin|sbin|lib\w*|etc|dev(?!/shm/)|proc|sys|run(?!/user/)|opt|var/(run|lib|log|cache))?(/|$)"
)
_SECRET_NAMES = re.compile(
    "TOKEN|SECRET|PASS|PWD|_PAT$|COOKIE|CREDENTIAL|(API|ACCESS)_?KEY|PRIVATE|AUTH(?!OR)|DSN"
)
_HOST_NAMES, _USER_NAMES = re.compile(r"HOST(NAME|ADDR)?$"), re.compile(r"(USER(NAME)?|LOGNAME)$")


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
        *_accounts(),
        *(OwnFact(ADDRESS, address) for address in _addresses()),
        *_variables(),
        *(OwnFact(PATH, text) for text in _folders()),
    ]
    kinds = {fact.text: fact for fact in found if _is_private(fact)}
    return [kinds[text] for text in sorted(kinds, key=lambda text: (-len(text), text))]


def _is_private(fact: OwnFact) -> bool:
    text = fact.text
    is_of_kind = {
        PATH: text.startswith("/") and not _COMMON_PATHS.match(text),
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


def _accounts() -> Iterator[OwnFact]:
    names = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    with suppress(OSError, KeyError):
        names.add(getpass.getuser())
    with suppress(KeyError):
        names.add(pwd.getpwuid(os.getuid()).pw_name)
    for name in filter(None, names):
        yield OwnFact(USER, name)
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            yield OwnFact(USER, entry.pw_gecos.partition(",")[0].strip())
            yield OwnFact(PATH, entry.pw_dir)


def _addresses() -> Iterator[str]:
    with suppress(OSError):
        for interface in psutil.net_if_addrs().values():
            for one in interface:
                address = one.address.partition("%")[0]
                if address.strip("0:"):  # a loopback interface's hardware has none
                    yield address


def _folders() -> Iterator[str]:
    for folder in (Path.cwd, Path.home, lambda: PROJECT):
        with suppress(OSError, RuntimeError):
            yield from (str(folder()), os.path.realpath(folder()))


def _variables() -> Iterator[OwnFact]:
    """Yield what environment variables say, by their names; of paths, those that are two folders deep."""
    for name, value in os.environ.items():
        word = name.upper()
        if value.startswith(("/", "~/")) or "=/" in value:
            paths = (text for text in re.split(r"[:;,=\s]", value) if re.match("/.*/", text))
            yield from (OwnFact(PATH, text.rstrip("/")) for text in paths)
        elif _SECRET_NAMES.search(word):
            yield OwnFact(SECRET, value, name)
        elif _HOST_NAMES.search(word):
            yield OwnFact(HOST, host_of(value))
        elif _USER_NAMES.search(word):
            yield OwnFact(USER, value)


def host_of(address: str) -> str:
    """Return the host of an address such as db:5432, [::1]:5432 or tcp://user@db:1/."""
    text = re.sub(r"^\w+://", "", address).partition("/")[0].rpartition("@")[2]
    return re.sub(r":\d*$", "", text) if text.count(":") == 1 or "]" in text else text


MAIL = "mail"
IN_WORDS = {
    HOST: "names of hosts",
    USER: "names of accounts or people",
    ADDRESS: "addresses of machines",
    PATH: "paths of folders and files",
    SECRET: "passwords and keys",
    MAIL: "mail addresses",
}
_PEOPLES_FOLDERS = "/home|/Users|/root|/var/tmp|/tmp|/dev/shm|/run/user|/mnt"
PATH_START, PATH_END = r"(?<![\w.~\]-])", r"(?![\w-])"
REST = r"(?:/[^\s\"'`<>|;,:()\[\]{}\\&?*$=]*(?<![./]))?"  # of a path, without the dot of a sentence
# A person's folder, whose name may have spaces where something below it follows.
_HOME = r"/(?:home|Users)/(?:[^\s/\"'<>|:;,]+ ){1,3}[^\s/\"'<>|:;,]+(?=/)"
BEFORE, AFTER = r"(?<![^\W_])", r"(?![^\W_])"  # a letter or digit makes it part of another word
NAMED_HOST = r"(?<=@)|(?<=//)|(?<=host=)|(?<=host: )|(?<=host [\"'])|(?<=server [\"'])"
NAMED_USER = r"(?<=user=)|(?<=user: )|(?<=user \")|(?<=role \")|(?<=owner: )|(?<=account )"
BEFORE_VERSION = re.compile(
    r"((version|release|tag)\W{0,4}|==|[a-z\d_]-|[~^<>]|(?<!host)(?<!tcp)[a-z]:)$", re.I
)
LAST_WORD = re.compile(r"([\w.+-]+)\W{1,2}$")
_MAIL = r"(?<![\w.+-])[\w.+-]+(?:@|%40)(?!at-)[A-Za-z\d-]+(?:\.[A-Za-z\d-]+)*\.[A-Za-z]{2,24}(?![\w=@-])"
QUAD = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w|-[A-Za-z])"
_GROUPS = r"(?<![\w:.])(?:[\dA-Fa-f]{0,4}:){2,7}[\dA-Fa-f]{0,4}(?![\w:])"
_INNER_HOST = (
    r"(?<![\w.-])(?:[\w-]+\.)+(?:internal|lan|corp|intranet|local|localdomain|svc\.cluster\.local)(?![\w-]|\.\w)"
    r"|(?<![\w.-])ip(?:-\d{1,3}){4}(?!\w)"
)
_USER_OF_URL = r"(?<=://)[^\s/@:]*:[^\s/@]*(?=@)"
_KEYS = (
    r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|(?:gh[pousr]|hf)_[A-Za-z0-9]{30,}|github_pat_\w{22,}"
    r"|glpat-[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|sk-[\w-]{20,}|npm_\w{36}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}|dop_v1_\w{40,}|[sr]k_(?:live|test)_\w{16,}|pypi-[\w-]{32,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|shpat_\w{32}|GOCSPX-[\w-]{20,}|dapi[\da-f]{32}|AGE-SECRET-KEY-1\w{50,}"
    r"|(?<=[Bb]earer )[\w.~+/-]{16,}|(?<=hooks\.slack\.com/services/)[\w/]+|(?<=[?&]sig=)[\w%+/=-]{16,})"
)
_HASHES = r"SCRAM-SHA-256\$\d+:[\w+/=]+\$[\w+/=]+:[\w+/=]+|\bmd5[\da-f]{32}\b"  # of passwords
_QUOTED = r"(?P<quote>\\*['\"])(?P<fact>(?:(?!(?P=quote)).|(?P=quote){2})+)"
_IN_SQL = rf"(?i:\b(?:password|identified\s+by))\s+{_QUOTED}"
_IN_OPTION = r"(?<!\S)--(?!no-)[\w-]*pass(?:word|wd)?(?:=|\s+)['\"]?(?P<fact>[^\s'\"\[\]-][^\s'\"]*)"
_NAMED_HOST = r"(?P<fact>[A-Za-z][\w-]*(?:\.[\w-]+)+)"
_CONNECTION = rf"(?:\bhost(?:name)?\s*=\s*['\"]?|\bpostgres(?:ql)?://(?:[^\s/@]*@)?){_NAMED_HOST}"
_NOTHING = {"null", "none", "true", "false", "nil"}  # in place of a secret


def assigned(names: str, least: int) -> re.Pattern[str]:
    """Return the pattern of a `fact` that is assigned to one of these names, in any quotes or in none."""
    plain = rf"[^\s\"'&;,<>*\[\]{{}}()\\]{{{least},}}"
    quoted = r"(?:(?!(?P=quote)).|(?P=quote){2})+"
    start = rf"(?i:{names})\\*[\"']?\s*[=:]\s*(?P<quote>\\*[\"'])?"
    return re.compile(rf"{start}(?P<fact>(?(quote){quoted}|{plain}))")


class Rule(NamedTuple):
    """What is replaced, by its kind. `accepts` looks at a match closer.

    Where a pattern has a group `fact`, that alone is replaced. What is not sought is replaced, and may stay
    in a text that others have written.
    """

    kind: str
    pattern: re.Pattern[str]
    accepts: Callable[[re.Match[str]], bool] = bool
    is_sought: bool = True


def fact_of(match: re.Match[str]) -> tuple[int, int]:
    """Return where the private part of a match begins and ends."""
    return match.span("fact" if "fact" in match.re.groupindex else 0)


def _is_secret(match: re.Match[str]) -> bool:
    """Whether something stands there, and not a placeholder or what means nothing."""
    start, end = fact_of(match)
    text = match.string[start:end]
    return not (text.lower() in _NOTHING or set(text) <= set("*.%s") or PLACEHOLDER.search(text))


def _is_address_of_groups(match: re.Match[str]) -> bool:
    text = match.group()
    groups = [group for group in text.split(":") if group]
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(groups) > 1 and any(c.isdigit() for c in text) and not is_everywhere(text)


def rule_of(kind: str, texts: Collection[str], before: str, after: str, flags: int = 0) -> Rule | None:
    """Return the rule that finds any of these texts, the longest first; None without texts."""
    if not texts:
        return None
    either = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    return Rule(kind, re.compile(f"(?:{before})(?:{either}){after}", flags))


# In the order in which they are replaced, before and after what this machine is called.
FORMS_OF_SECRETS = (
    Rule(SECRET, re.compile(_USER_OF_URL), _is_secret),
    Rule(
        SECRET, assigned(r"PGPASSWORD|password|passwd|passphrase|(?-i:_PASS)|(?<=[\"'_])pwd", 1), _is_secret
    ),
    Rule(SECRET, assigned("secret|token|(?:api|access|account|secret|auth)[_-]?key", 6), _is_secret),
    *(Rule(SECRET, re.compile(form), _is_secret) for form in (_IN_SQL, _IN_OPTION, _HASHES)),
    Rule(SECRET, re.compile(_KEYS)),
    Rule(MAIL, re.compile(_MAIL)),
)
FORMS_OF_PATHS = (
    Rule(PATH, re.compile(rf"{PATH_START}(?:{_HOME}|~[a-z_][\w-]{{2,}}(?=/)){REST}")),
    Rule(
        PATH,
        re.compile(
            rf"{PATH_START}(?:(?:/[\w.-]+){{0,3}}/home|/Users|/root)(?=/(?!USER\b|user\b|<)[^\s/]){REST}"
        ),
    ),
    Rule(PATH, re.compile(f"{PATH_START}(?:{_PEOPLES_FOLDERS}){PATH_END}{REST}"), is_sought=False),
)
FORMS_OF_ADDRESSES = (
    Rule(HOST, re.compile(_INNER_HOST)),
    Rule(HOST, re.compile(_CONNECTION), lambda match: not is_everywhere(match["fact"])),
    Rule(ADDRESS, re.compile(_GROUPS), _is_address_of_groups),
)
