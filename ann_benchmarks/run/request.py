"""What a command line requests of run.py, as one value: read once, and handed on to whoever needs it."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.layout import typed_words
from ann_benchmarks.data.filters import canonical_filter
from ann_benchmarks.definitions import servers as kinds
from ann_benchmarks.jobs.job import Conditions, Execution, Procedure
from ann_benchmarks.jobs.rounds import Rounds
from ann_benchmarks.load.request import Load, QueryOrder
from ann_benchmarks.load.workload import SECONDS, WRITERS, Mix, Workload

from .command_line import NONE, CommandLine, make_parser

# A procedure has the options that are named as it names what it has, unless they are set otherwise below.
_SHARED = [name for name in Procedure.__dataclass_fields__ if name in CommandLine.__dataclass_fields__]


@dataclass(frozen=True)
class Request(CommandLine):
    """The options, and what follows from them."""

    run_groups: Mapping[str, Any] = field(default_factory=dict)  # of an experiment, by algorithm
    own_index: tuple[str, Mapping[str, Any]] | None = None  # algorithm, build arguments
    skips_unavailable: bool = False  # also algorithms that were named, as in an experiment

    @property
    def time_limit(self) -> float | None:
        """The seconds of a definition, None for no limit."""
        return None if self.timeout == -1 else self.timeout

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of the filter sets, each once; none without --filter."""
        return tuple(dict.fromkeys(canonical_filter(name) for names in self.filter for name in names))

    @property
    def columns(self) -> str:
        """What comes back beside the ids, "" for nothing."""
        return "" if self.payload == "ids" else self.payload

    @property
    def turns(self) -> Rounds | None:
        """How long contenders are to be measured in turn, None where they are not."""
        is_requested = self.rounds or self.until or self.budget
        return Rounds(self.rounds, self.until, self.budget) if is_requested else None

    @property
    def most_clients(self) -> int:
        """How many clients and writers there are to be at the same time, at most."""
        return max(self.clients, default=0) + max(self.writers, default=0)

    @property
    def servers(self) -> list[kinds.Servers]:
        """What answers queries: each is a contender; one server where nothing else is requested."""
        if any(self.shards):
            return kinds.every_shards(self.shards, self.shard_engine or kinds.ENGINES[:1])
        if any(self.replicas):
            return kinds.every_replicas(self.replicas)
        names = [None if name == NONE else name for name in self.pooler or [NONE]]
        return kinds.every_pooled(names, self.pool_size or [None])

    @property
    def loads(self) -> Sequence[Load | Workload]:
        """A load for each number of clients and each rate, or what writes meanwhile; none without clients."""
        how: dict[str, Any] = {"order": self.query_order or QueryOrder(), "distinct": self.distinct_queries}
        if self.workload is not None:
            seconds = self.duration or SECONDS[self.workload]
            none: list[Load | None] = [None]
            queries = [Load(clients, seconds=seconds, **how) for clients in self.clients] or none
            kind, writers = self.workload, self.writers or [WRITERS[self.workload]]
            mix = self.write_mix or Mix()
            return [
                Workload(kind, number, seconds, self.loaded, load, rate, mix)
                for load, number, rate in product(queries, writers, self.write_rate or [None])
            ]
        return [
            Load(clients, self.max_queries, self.duration, rate=rate, objective=self.slo, **how)
            for clients, rate in product(self.clients, self.rate or [None])
        ]

    def procedures(
        self, conditions: Sequence[Conditions | None] = (), in_turn: bool = True
    ) -> list[Procedure]:
        """Return how points are to be measured: under each of the conditions, by each load with each filter.

        `in_turn` says whether rounds are possible, if they are requested.
        """
        none: list[Any] = [None]
        turns = self.turns if in_turn else None
        named: dict[str, Any] = {name: getattr(self, name) for name in _SHARED}
        named |= {"runs": self.runs if turns else self.rounds or self.runs, "rounds": turns}
        named |= {"payload": self.columns}
        return [
            Procedure(
                **named
                | {
                    "load": None if isinstance(load, Workload) else load,
                    "workload": load if isinstance(load, Workload) else None,
                    "conditions": condition,
                    "filter": filter,
                }
            )
            for condition, load, filter in product(
                conditions or none, self.loads or none, self.filters or [""]
            )
        ]

    def execution(self, **facts: Any) -> Execution:
        """Return how jobs are to be carried out; `facts` are stored with each point."""
        return Execution(
            self.load_threads,
            self.chunk_size,
            self.rebuild,
            clients=self.most_clients,
            monitoring=not self.no_monitoring,
            show_progress=self.parallelism == 1,
            filters=self.filters,
            payload=self.columns,
            facts={"command_line": shlex.join(typed_words()), **facts},
        )


def read_request(words: Sequence[str], parser: argparse.ArgumentParser | None = None) -> Request:
    """Read a command line, by a parser of `make_parser`."""
    values: dict[str, Any] = vars((parser or make_parser()).parse_args(words))
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Request(**values)


LOCAL = "--local"
_OPTIONS = ("--url", "--ur")  # argparse would take both
_SCHEMES = ("postgresql", "postgres")
_FORM = "--url must be of the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_PREFIX = "ANN_BENCHMARKS_PG_"
_OF_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "options")
_VARIABLES = {name: f"{_PREFIX}{name.upper()}" for name in ("user", "password", "host", "port", "dbname")}
_VARIABLES |= {name: f"PG{name.upper().replace('_', '')}" for name in _OF_LIBPQ}
# A password in the URL of a table: between the user and the last @, or a parameter.
_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):.*@|(\bpassword=)(?:'[^']*'|[^&\s]*)")


def take_url(words: Sequence[str], *given: str) -> list[str]:
    """Return a command line without its URL, and set the variables that the URL stands for.

    `given` are words that the command adds. UserError where no server can be meant.
    """
    kept, url = _split(words)
    sys.argv[1:] = map(hide_password, _split(sys.argv[1:])[0])  # they are stored with results
    if url is None:
        return kept
    if LOCAL not in (*kept, *given):
        raise UserError("--url is for servers outside of containers: add --local")
    os.environ.update(variables_of(url))
    return kept


def hide_password(word: str) -> str:
    """Return a word of a command line without the password of a server, where it has one."""
    is_of_server = any(f"{scheme}://" in word for scheme in _SCHEMES) or "password=" in word
    return _PASSWORD.sub(_hide, word) if is_of_server else word


def _hide(found: "re.Match[str]") -> str:
    return found[2] or f"{found[1]}@"


def variables_of(url: str) -> dict[str, str]:
    """Return the variables that a URL stands for; nothing of it is quoted in an error but names."""
    try:
        parts = urlsplit(url)
        found = {"user": parts.username, "password": parts.password, "host": parts.hostname}
        found |= {"port": str(parts.port or ""), "dbname": parts.path.removeprefix("/")}
        more = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise UserError(_FORM) from None
    if parts.scheme not in _SCHEMES or "/" in (found["dbname"] or "") or parts.fragment:
        raise UserError(_FORM)
    values = {name: unquote(value) for name, value in found.items() if value} | dict(more)
    values.setdefault("password", os.environ.get("PGPASSWORD", ""))
    values.setdefault("host", "localhost")
    if unknown := [name for name in values if name not in _VARIABLES]:
        raise UserError(f"--url has the unknown parameter '{unknown[0]}'; {closest(unknown[0], _VARIABLES)}")
    return {_VARIABLES[name]: value for name, value in values.items() if value}


def _split(words: Sequence[str]) -> tuple[list[str], str | None]:
    kept: list[str] = []
    url, left = None, iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            url = value if equals else next(left, "")
        else:
            kept.append(word)
    return kept, url
