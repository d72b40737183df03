"""Private facts in texts, and what stands in their place.

What this machine and its user are called is replaced wherever it stands as a word. A name that is also a word
of this project's manual, such as a host called vector, is replaced only where it stands as a name. What looks
like an address, a mail address, a password or a path below the folders of people is replaced, whosever it is.
The same text has the same placeholder everywhere, so that two servers stay two.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ann_benchmarks.fields.series import stored_series
from ann_benchmarks.results.attributes import version_names

from .files import without_brackets
from .own_facts import ADDRESS, HOST, PATH, REPOSITORY, ROOT, SECRET, USER, OwnFact, host_of, is_everywhere

MAIL = "mail"
IN_WORDS = {
    HOST: "names of hosts",
    USER: "names of accounts or people",
    ADDRESS: "addresses of machines",
    PATH: "paths of folders and files",
    SECRET: "passwords, or values of environment variables",
    MAIL: "mail addresses",
    REPOSITORY: "the folder of this project",
}
# Accounts that many machines have: they say nothing about anyone.
COMMON_ACCOUNTS = {
    "root", "postgres", "admin", "administrator", "ubuntu", "debian", "ec2-user", "centos", "fedora", "user",
    "vagrant", "docker", "runner", "nobody", "daemon", "jenkins", "gitlab-runner", "azureuser", "opc", "app",
}  # fmt: skip
COMMON_HOSTS = {
    "vm", "db", "host", "server", "node", "docker", "test", "build", "runner", "ubuntu", "debian", "pg",
    "localhost", "machine", "postgres",
}  # fmt: skip
_PUBLIC_REGISTRIES = {"docker.io", "ghcr.io", "quay.io", "gcr.io", "public.ecr.aws", "mcr.microsoft.com"}
_TEXTS = ("*.md", "docs/*.md", "experiments/*.yml", "algorithms/*/config.yml")
_PEOPLES_FOLDERS = ("/home", "/Users", "/root", "/var/tmp", "/tmp", "/dev/shm", "/run/user", "/mnt")
_REST = r"(?:/[^\s\"'`<>|;,:()\[\]{}\\&?*$=]*)?"  # of a path
_BEFORE, _AFTER = r"(?<![^\W_])", r"(?![^\W_])"  # a letter or digit makes it part of another word
_QUOTED_HOST = r"(?<=host \")|(?<=server \")|(?<=host ')|(?<=server ')"
_NAMED_USER = r"(?<=user=)|(?<=user: )|(?<=user \")|(?<=role \")|(?<=owner: )|(?<=account )"
_BEFORE_VERSION = re.compile(
    r"((version|release|tag)\W{0,4}|==|[a-z\d_]-|[~^<>]|(?<!host)(?<!tcp)[a-z]:)$", re.I
)
_LAST_WORD = re.compile(r"([\w.+-]+)\W{1,2}$")
_MAIL = r"(?<![\w.+-])[\w.+-]+@(?!at-)[A-Za-z\d-]+(?:\.[A-Za-z\d-]+)*\.[A-Za-z]{2,24}(?![\w=@-])"
_QUAD = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\w|-[A-Za-z])"
GROUPS = r"(?<![\w:.])(?:[\dA-Fa-f]{0,4}:){2,7}[\dA-Fa-f]{0,4}(?![\w:])"
HARDWARE = r"(?<![\w:])[\da-fA-F]{2}(?::[\da-fA-F]{2}){5}(?![\w:])"
_INNER_HOST = (
    r"(?<![\w.-])(?:[\w-]+\.)+(?:internal|lan|corp|intranet)(?![\w-]|\.\w)|(?<![\w.-])ip(?:-\d{1,3}){4}(?!\w)"
)
_PASSWORD = r"(?<=://)[^\s/@:]*:[^\s/@]*(?=@)|(?i:(?<=password=)|(?<=passwd=)|(?<=password: ))[^\s\"'&;,]+"


class _Rule(NamedTuple):
    """What is replaced, by its kind. `accepts` looks at a match closer. `is_own`: it is of this machine."""

    kind: str
    pattern: re.Pattern[str]
    is_own: bool = False
    accepts: Callable[[re.Match[str]], bool] = bool


@cache
def manual_words() -> frozenset[str]:
    """Return the words of this project's own texts, in lower case."""
    texts = [path.read_text(encoding="utf-8") for glob in _TEXTS for path in ROOT.glob(glob)]
    return frozenset(word.lower() for text in texts for word in re.findall(r"[^\W_]+", text))


def facts_of_results(attrs: Mapping[str, Any]) -> list[OwnFact]:
    """Return what the attributes of a result say of other machines: its server, the registry of its image."""
    found = [host_of(word) for word in str(attrs.get("server_address", "")).split(",")]
    if (series := stored_series(attrs)) and found:
        # The name of a folder may have the beginning of an address.
        named = series.environment.partition("at-")[2]
        found += [named] if found[0].startswith(named) and named else []
    registry, slash, _ = str(attrs.get("docker_image", "")).partition("/")
    if slash and (":" in registry or "." in registry) and registry not in _PUBLIC_REGISTRIES:
        found.append(host_of(registry))
    names = [name for name in found if not is_everywhere(name) and not re.search(r"[\s/]", name)]
    return [OwnFact(ADDRESS if _is_number(name) else HOST, name) for name in names]


class Private:
    """Replaces what is private in texts, and remembers how much it has replaced."""

    def __init__(self, facts: Iterable[OwnFact], results: Iterable[Mapping[str, Any]] = ()) -> None:
        """Take the facts; the attributes of `results` say more, and what is a version or a plain word."""
        every = list(results)
        facts = [*facts, *(fact for attrs in every for fact in facts_of_results(attrs))]
        self._versions, self._software, words = set[str](), set[str](), set[str]()
        for attrs in every:
            for name, title in version_names(attrs).items():
                self._versions |= set(str(attrs[name]).split())
                self._software |= set(title.lower().split())
            words |= set(re.findall(r"[^\W_]+", " ".join(map(str, attrs)).lower()))
        self._ordinary = manual_words() | words | COMMON_HOSTS
        self._numbers: dict[tuple[str, str], int] = {}
        self._known: dict[str, str] = {}
        self._rules = [rule for rule in self._rules_of(list(dict.fromkeys(facts))) if rule]

    @property
    def left_out(self) -> list[str]:
        """What was replaced, in words that give nothing away."""
        counts: dict[str, int] = {}
        for kind, _ in self._numbers:
            counts[kind] = counts.get(kind, 0) + 1
        return [
            f"{IN_WORDS[kind]}: {counts[kind]}, replaced by [{kind}{'' if kind == REPOSITORY else '-1'}]"
            + (" and so on" if counts[kind] > 1 and kind != REPOSITORY else "")
            for kind in IN_WORDS
            if kind in counts
        ]

    def text(self, text: str) -> str:
        """Return a text with placeholders such as [path-1]."""
        if text not in self._known:
            found = text
            for rule in self._rules:
                found = rule.pattern.sub(lambda match, rule=rule: self._replaced(rule, match), found)  # type: ignore[misc]
            self._known[text] = found
        return self._known[text]

    def value(self, value: Any) -> Any:
        """Return what JSON or HDF5 holds with its texts, those inside of JSON texts too, replaced."""
        if isinstance(value, str):
            inner = _structure(value)
            if inner is None:
                return self.text(value)
            changed = self.value(inner)
            return value if changed == inner or repr(changed) == repr(inner) else json.dumps(changed)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.value(inner) for name, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list | tuple) else value

    def name(self, path: str) -> str:
        """Return the path of a file in the bundle: a folder's name may say at which address its server is."""
        return without_brackets("/".join(self.text(part) for part in path.split("/")))

    def own_in(self, text: str) -> str | None:
        """Return the kind of the first fact of this machine or its servers that stands in a text, or None."""
        for rule in self._rules:
            if rule.is_own and any(rule.accepts(match) for match in rule.pattern.finditer(text)):
                return rule.kind
        return None

    def own_in_bytes(self, content: bytes) -> str | None:
        """Return the same for bytes without a known structure: only long, distinctive facts count."""
        return next((kind for kind, pattern in self._bytes if pattern.search(content)), None)

    def _replaced(self, rule: _Rule, match: re.Match[str]) -> str:
        found = match.group()
        if not rule.accepts(match):
            return found
        if rule.kind == REPOSITORY:
            self._numbers.setdefault((rule.kind, ""), 1)
            return f"[{rule.kind}]"
        ending = re.search(r"[./]*$", found) if rule.kind == PATH else None
        end = ending.group() if ending else ""
        whole = found.removesuffix(end) if end else found
        key = rule.kind, whole.lower() if rule.kind in (HOST, ADDRESS) else whole
        number = self._numbers.setdefault(key, 1 + sum(kind == rule.kind for kind, _ in self._numbers))
        return f"[{rule.kind}-{number}]{end}"

    def _rules_of(self, facts: Collection[OwnFact]) -> list[_Rule | None]:
        of = {kind: [fact.text for fact in facts if fact.kind == kind] for kind in IN_WORDS}
        people = [name for name in of[USER] if name.lower() not in COMMON_ACCOUNTS]
        users, ordinary_users = self._divided(people)
        hosts, ordinary_hosts = self._divided(of[HOST])
        distinctive = [(kind, name) for kind, names in ((HOST, hosts), (USER, users)) for name in names]
        long = [*distinctive, *((fact.kind, fact.text) for fact in facts if fact.kind not in (HOST, USER))]
        self._bytes = [
            (kind, re.compile(rb"(?<![A-Za-z0-9])" + re.escape(name.encode(errors="surrogateescape"))))
            for kind, name in long
            if len(name) >= 6
        ]
        path_start, path_end = r"(?<![\w.~\]-])", r"(?![\w-])"
        return [
            _rule(REPOSITORY, of[REPOSITORY], path_start, path_end),
            _rule(SECRET, of[SECRET], "", ""),
            _Rule(SECRET, re.compile(_PASSWORD)),
            _Rule(MAIL, re.compile(_MAIL)),
            _rule(PATH, of[PATH], path_start, rf"{path_end}{_REST}"),
            _Rule(PATH, re.compile(f"{path_start}(?:{'|'.join(_PEOPLES_FOLDERS)}){path_end}{_REST}")),
            _rule(ADDRESS, of[ADDRESS], r"(?<![\w.])", r"(?!\w|\.\w)", re.I),
            _rule(HOST, hosts, _BEFORE, _AFTER, re.I),
            _rule(HOST, ordinary_hosts, r"(?:(?<=@)|(?<=//)|(?<=host=)|(?<=host: ))", r"(?![\w.-])", re.I),
            _rule(HOST, ordinary_hosts, r"(?<![\w./])(?<!-)|(?<=\bat-)", r"(?=[:-]\d{4,5}(?!\d))", re.I),
            _rule(HOST, ordinary_hosts, _QUOTED_HOST, r"(?=[\"'])", re.I),
            _rule(USER, users, _BEFORE, _AFTER),
            _rule(USER, ordinary_users, _NAMED_USER, r"(?![\w.-])"),
            _Rule(HOST, re.compile(_INNER_HOST)),
            _Rule(ADDRESS, re.compile(HARDWARE)),
            _Rule(ADDRESS, re.compile(_QUAD), False, self._is_address),
            _Rule(ADDRESS, re.compile(GROUPS), False, _is_address_of_groups),
        ]  # fmt: skip

    def _divided(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Divide names into those that are nothing else, and those that are also plain words."""
        found: tuple[list[str], list[str]] = [], []
        for name in names:
            is_word = all(part in self._ordinary for part in re.findall(r"[^\W_]+", name.lower()))
            found[is_word and "." not in name].append(name)
        return found

    def _is_address(self, match: re.Match[str]) -> bool:
        """Whether four numbers are an address, and not a version of something."""
        text, before = match.group(), match.string[max(0, match.start() - 40) : match.start()]
        try:
            if ipaddress.ip_address(text).packed[0] == 0 or is_everywhere(text) or text in self._versions:
                return False
        except ValueError:
            return False
        word = _LAST_WORD.search(before)
        return not _BEFORE_VERSION.search(before) and not (word and word[1].lower() in self._software)


def _is_number(address: str) -> bool:
    try:
        return bool(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        return False


def _is_address_of_groups(match: re.Match[str]) -> bool:
    text = match.group()
    groups = [group for group in text.split(":") if group]
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return len(groups) > 1 and any(c.isdigit() for c in text) and not is_everywhere(text)


def _rule(kind: str, texts: Collection[str], before: str, after: str, flags: int = 0) -> _Rule | None:
    """Return the rule that finds any of these texts, the longest first; None where there are none."""
    if not texts:
        return None
    either = "|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True))
    return _Rule(kind, re.compile(f"(?:{before})(?:{either}){after}", flags), True)


def _structure(text: str) -> Any:
    """Return the object or list that a text is in JSON, None if it is none."""
    if text[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None
