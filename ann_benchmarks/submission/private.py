"""Private facts in texts, and what stands in their place.

What this machine and its user are called is replaced wherever it stands as a word. A name that is also a word
of this project's manual, such as a host called vector, is replaced only where it stands as a name. What looks
like an address, a mail address, a secret or a path below the folders of people is replaced, whosever it is.
The same text has the same placeholder everywhere, so that two servers stay two. The checker looks for the
same facts by the same rules.
"""

import ipaddress
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus

from ann_benchmarks.common.layout import DEFINITIONS_FOLDER, shared
from ann_benchmarks.fields.series import stored_series
from ann_benchmarks.results.attributes import version_names

from . import facts as forms
from .facts import (
    ADDRESS,
    HOST,
    IN_WORDS,
    PATH,
    SECRET,
    USER,
    OwnFact,
    Rule,
    fact_of,
    host_of,
    is_everywhere,
    rule_of,
)
from .files import remove_brackets

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


@cache
def manual_words() -> frozenset[str]:
    """Return the words of this project's own texts, in lower case."""
    files = [*shared("docs").glob("*.md"), *shared("experiments").glob("*.yml")]
    files += DEFINITIONS_FOLDER.glob("*/config.yml")
    texts = [path.read_text(encoding="utf-8") for path in files]
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
    names = [name for name in found if not is_everywhere(name) and not re.search(r"[\s/]|^\[\w+-\d", name)]
    return [OwnFact(ADDRESS if _is_number(name) else HOST, name) for name in names]


SURE = 8  # characters of a secret that is replaced within words, too
QUOTINGS: tuple[Callable[[str], str], ...] = (
    str,
    lambda text: quote(text, ""),
    quote_plus,
    lambda text: json.dumps(text)[1:-1],
    lambda text: text.replace("'", "''"),
    lambda text: shlex.quote(text).strip("'"),
)


class Private:
    """Replaces what is private in texts, and remembers how much it has replaced.

    `found` has the kinds of what was replaced since somebody has emptied it.
    """

    def __init__(
        self, facts: Iterable[OwnFact], results: Iterable[Mapping[str, Any]] = (), allowed: str = ""
    ) -> None:
        """Take the facts; the attributes of `results` say more, and what is a version or a plain word.

        What lies within an `allowed` text stays.
        """
        self.found = set[str]()
        self._allowed = re.compile(re.escape(allowed)) if allowed else None
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
        self._known: dict[str, tuple[str, set[str]]] = {}
        self._rules = [rule for rule in self._rules_of(list(dict.fromkeys(facts))) if rule]

    @property
    def left_out(self) -> list[str]:
        """What was replaced, in words that give nothing away."""
        counts = Counter(kind for kind, _ in self._numbers)
        return [
            f"{IN_WORDS[kind]}: {counts[kind]}, replaced by [{kind}-1]" + " and so on" * (counts[kind] > 1)
            for kind in IN_WORDS
            if kind in counts
        ]

    def text(self, text: str) -> str:
        """Return a text with placeholders such as [path-1]."""
        if text not in self._known:
            changed, kinds = text, set[str]()
            for rule in self._rules:
                before = changed
                changed = rule.pattern.sub(lambda match, rule=rule: self._replaced(rule, match), before)  # type: ignore[misc]
                kinds |= {rule.kind} if rule.is_sought and changed != before else set()
            self._known[text] = changed, kinds
        changed, kinds = self._known[text]
        self.found |= kinds
        return changed

    def value(self, value: Any) -> Any:
        """Return what JSON or HDF5 holds with its texts, those inside of JSON texts too, replaced."""
        if isinstance(value, str):
            inner = _structure(value)
            if inner is None:
                return self.text(value)
            changed = self.value(inner)
            return value if changed == inner or repr(changed) == repr(inner) else json.dumps(changed)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.member(str(name), inner) for name, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list | tuple) else value

    def member(self, name: str, value: Any) -> Any:
        """Return what has a name, which may say that it is a secret."""
        if not isinstance(value, str) or "[" in value:
            return self.value(value)
        start = f"{name}='"
        whole = self.text(f"{start}{value}'")
        return whole[len(start) : -1] if whole.startswith(f"{start}[{SECRET}-") else self.value(value)

    def name(self, path: str) -> str:
        """Return the path of a file in the bundle: a folder's name may say at which address its server is."""
        return remove_brackets("/".join(self.text(part) for part in path.split("/")))

    def _replaced(self, rule: Rule, match: re.Match[str]) -> str:
        start, stop = fact_of(match)
        spans = [one.span() for one in self._allowed.finditer(match.string)] if self._allowed else []
        if not rule.accepts(match) or any(first <= start and stop <= last for first, last in spans):
            return match.group()
        before, found = match.string[match.start() : start], match.string[start:stop]
        after = match.string[stop : match.end()]
        key = rule.kind, found.lower() if rule.kind in (HOST, ADDRESS) else found
        number = self._numbers.setdefault(key, 1 + sum(kind == rule.kind for kind, _ in self._numbers))
        return f"{before}[{rule.kind}-{number}]{after}"

    def _rules_of(self, facts: Collection[OwnFact]) -> list[Rule | None]:
        of = {kind: [fact.text for fact in facts if fact.kind == kind] for kind in IN_WORDS}
        people = [name for name in of[USER] if name.lower() not in COMMON_ACCOUNTS]
        users, ordinary_users = self._divided(people)
        hosts, ordinary_hosts = self._divided(of[HOST])
        sure, ordinary_secrets = self._divided(of[SECRET])
        secrets = {quote(text) for text in sure for quote in QUOTINGS}
        self.unsafe = [fact.name for fact in facts if fact.kind == SECRET and fact.text in ordinary_secrets]
        return [
            rule_of(SECRET, [text for text in secrets if len(text) >= SURE], "", ""),
            rule_of(SECRET, [text for text in secrets if len(text) < SURE], forms.BEFORE, forms.AFTER),
            *forms.FORMS_OF_SECRETS,
            rule_of(PATH, of[PATH], forms.PATH_START, f"{forms.PATH_END}{forms.REST}"),
            *forms.FORMS_OF_PATHS,
            rule_of(ADDRESS, of[ADDRESS], r"(?<![\w.])", r"(?!\w|\.\w)", re.I),
            rule_of(HOST, hosts, forms.BEFORE, forms.AFTER, re.I),
            rule_of(HOST, ordinary_hosts, forms.NAMED_HOST, r"(?![\w.-])", re.I),
            rule_of(HOST, ordinary_hosts, r"(?<![\w./])(?<!-)|(?<=\bat-)", r"(?=[:-]\d{4,5}(?!\d))", re.I),
            rule_of(USER, users, forms.BEFORE, forms.AFTER),
            rule_of(USER, ordinary_users, forms.NAMED_USER, r"(?![\w.-])"),
            *forms.FORMS_OF_ADDRESSES,
            Rule(ADDRESS, re.compile(forms.QUAD), self._is_address),
        ]

    def _divided(self, texts: Iterable[str]) -> tuple[list[str], list[str]]:
        """Divide texts into those that are nothing else, and those that are also plain words or numbers."""
        found: tuple[list[str], list[str]] = [], []
        for text in texts:
            words = re.findall(r"[^\W_]+", text.lower())
            is_plain = all(word in self._ordinary or word.isdecimal() for word in words)
            found[is_plain and not re.search(r"[^\W\d]\.", text)].append(text)
        return found

    def _is_address(self, match: re.Match[str]) -> bool:
        """Whether four numbers are an address, and not a version of something."""
        text, before = match.group(), match.string[max(0, match.start() - 40) : match.start()]
        try:
            if ipaddress.ip_address(text).packed[0] == 0 or is_everywhere(text) or text in self._versions:
                return False
        except ValueError:
            return False
        word = forms.LAST_WORD.search(before)
        return not forms.BEFORE_VERSION.search(before) and not (word and word[1].lower() in self._software)


def _is_number(address: str) -> bool:
    try:
        return bool(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        return False


def _structure(text: str) -> Any:
    """Return the object or list that a text is in JSON, None for other texts."""
    if text[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None
