"""run.py's options as a table: each field is an option, with its help, its type and its default."""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ann_benchmarks.common import cli
from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.numbers import whole
from ann_benchmarks.definitions.selection import SettingValues, read_setting
from ann_benchmarks.definitions.servers import ENGINES, POOLERS
from ann_benchmarks.jobs.rounds import read_share, read_time
from ann_benchmarks.load.request import Objective, QueryOrder
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import SECONDS, Mix

NONE = "none"  # one server, as a contender of several
MOST_SHARDS = 64
MOST_REPLICAS = 16  # servers of one machine
MOST_CPUS = 1 << 13  # Linux has no more
MOST_CONNECTIONS = 400  # of a pool: a server of our own takes 500

# The first option of each group, and the group's title. The options before all of them are ann-benchmarks'.
GROUPS = {
    "memory": "containers",
    "clients": "load",
    "filter": "filters",
    "shards": "servers",
    "rounds": "contenders in turn",
    "workload": "workloads that write",
    "tiers": "tiers",
    "experiment": "experiments",
}


def option(text: str, metavar: str | None = None, kind: Any = None, default: Any = None, **how: Any) -> Any:
    """Return a field for an option: its help, what its value is called and read by, what else argparse takes.

    A default of False makes a switch; an empty tuple is the default of an option with several values.
    """
    how |= {"help": text, "metavar": metavar, "type": kind}
    return field(default=default, metadata={name: value for name, value in how.items() if value is not None})


def switch(text: str) -> Any:
    """Return a field for an option without a value."""
    return option(text, default=False, action="store_true")


def several(text: str, metavar: str, kind: Any) -> Any:
    """Return a field for an option whose values are separated by commas."""
    return option(text, metavar, kind, ())


def collected(text: str, metavar: str, kind: Any) -> Any:
    """Return a field for an option that takes several words, and may be repeated."""
    return option(text, metavar, kind, (), nargs="+", action="extend")


def _count_up_to(most: int, *none: str) -> Callable[[str], Any]:
    """Return what reads numbers up to the largest, where `none` are words for 0."""
    read = whole(1, most)
    return cli.each_of(lambda text: 0 if text in none else read(text))


def _known(what: str, *names: str) -> Callable[[str], Any]:
    """Return what reads some of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise UserError(f"unknown {what} '{shown(text)}'; {closest(text, names)}")
        return text

    return cli.each_of(read)


def _filter_names(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise UserError(f"'{shown(text)}' names no filters: give such as uniform:0.01,near:0.01")
    return names


def _read_cpus(text: str) -> list[int]:
    """Read CPUs as Docker and the kernel write them, such as 0-3,6."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if match is None or not int(match[1]) <= int(match[2] or match[1]) < MOST_CPUS:
            raise UserError(f"'{shown(text)}' names no CPUs: give such as 0-3,6")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cpus)


# ruff: noqa: RUF009  (`option` returns what dataclasses.field returns)
# fmt: off
@dataclass(frozen=True)
class CommandLine:
    """What run.py was given; the names and defaults of the options are those of the fields."""

    dataset: str = option("dataset to search", "NAME", default="glove-100-angular")
    count: int = option("number of nearest neighbours to search for", None, cli.positive_int, 10, flag="-k")
    definitions: Path = option(
        "where the algorithms are: FOLDER/*/config.yml", "FOLDER", cli.path, DEFINITIONS_FOLDER)
    algorithm: tuple[str, ...] = option("run only these algorithms; NAME:TAG uses that tag of the"
        " image, or with --local that release", "NAME", default=(), nargs="+")
    docker_tag: str | None = option("run only algorithms of this Docker image, at a tag: NAME:TAG", "NAME")
    list_algorithms: bool = switch("print the names of all algorithms and exit")
    json: bool = switch("with --list-algorithms: as JSON")
    force: bool = switch("measure finished points again")
    rebuild: bool = switch(
        "build again even if there is an index, and measure its finished points again")
    build_only: bool = switch("build missing indexes, and measure nothing")
    dry_run: bool = switch("print what would be loaded, built and measured, what that needs and about"
        " how long it takes, by rates of a sample, and exit")
    runs: int = option("runs of each point", "COUNT", cli.positive_int, 5)
    timeout: int = option("seconds for each definition, -1 for no limit", None, cli.limit, 2 * 3600)
    local: bool = switch("run on this machine itself instead of in containers")
    url: str | None = option("with --local: the PostgreSQL server to use, such as"
        " postgresql://user:password@host:5432/database, instead of environment variables", "URL")
    batch: bool = switch("give all queries to the algorithm at once")
    max_n_algorithms: int = option("run at most this many definitions, of each algorithm if several are"
        " named; -1 for all", None, cli.limit, -1)
    run_disabled: bool = switch("also run definitions that are disabled in their config.yml")
    no_monitoring: bool = switch("do not sample what the machine and the server do")
    parallelism: int = option(
        "definitions to run at the same time, fewer than there are cores", None, cli.positive_int, 1)
    load_threads: int | None = option("connections that load the vectors into a database (default: the"
        " plug-in's choice)", "N", cli.positive_int)
    chunk_size: int | None = option(
        "rows to load in one transaction (default: the plug-in's choice)", "ROWS", cli.positive_int)
    setting: tuple[SettingValues, ...] = collected("use this setting of PostgreSQL;"
        " NAME=VALUE,VALUE measures each value as a contender", "NAME=VALUE", cli.read_by(read_setting))

    memory: int | None = option(
        "memory of each container, such as 8g (default: what is free, in equal shares)", "SIZE", cli.size)
    cpuset: tuple[int, ...] = several(
        "CPUs of the containers, such as 0-3 (default: all)", "CPUS", cli.read_by(_read_cpus))
    storage: Path | None = option(
        "where containers keep built indexes (default: storage)", "FOLDER", cli.path)

    clients: tuple[int, ...] = several("send queries from N clients at the same time, then from M, ...;"
        " each has its own connection", "N,M", cli.positive_ints)
    max_queries: int | None = option("queries in one run, of all clients together", "N", cli.positive_int)
    duration: float | None = option("seconds of one run", "SECONDS", cli.positive_float)
    query_order: QueryOrder | None = option("shuffled: each client has its own order; same: all have"
        " one order; zipf:S: some queries come much more often (default: shuffled)", "ORDER",
        cli.read_by(QueryOrder.parse))
    distinct_queries: int | None = option("send only the dataset's first N queries, again and again;"
        " recall is still that of all", "N", cli.positive_int)
    rate: tuple[float, ...] = several("send R queries per second, then S, ..., whether or not a client is"
        " free; latency counts from when a query was due", "R,S", cli.positive_floats)
    slo: Objective | None = option(
        "find the highest rate that keeps this latency, such as p99:50ms", "PERCENTILE:TIME",
        cli.read_by(Objective.parse))
    warmup: Warmup | None = option("queries before each point that do not count. auto: until the throughput"
        " stops rising; off: none, and caches are emptied; or N (default: auto for PostgreSQL and with"
        " --clients)", "auto|off|N", cli.read_by(Warmup.parse))
    target_recall: float | None = option(
        "measure each index at the smallest search depth with a recall of R", "R",
        cli.share("recall", with_zero=False))
    payload: str = option("what queries return of each row; text: also a text of 1 kB; vector: also the"
        " vector",
        default="ids", choices=("ids", "text", "vector"))

    filter: tuple[Sequence[str], ...] = collected("measure queries with each of these filter sets,"
        " such as uniform:0.01,near:0.01", "NAME,NAME", cli.read_by(_filter_names))

    shards: tuple[int, ...] = several("divide the rows among N servers, and send each query to all of"
        f" them; several numbers are contenders, and '{NONE}' is one server with all rows",
        "N,N", _count_up_to(MOST_SHARDS, NONE))
    shard_engine: tuple[str, ...] = several(f"what queries the shards: {', '.join(ENGINES)}; several are"
        f" contenders (default: {ENGINES[0]})", "NAME,NAME", _known("shard engine", *ENGINES))
    pooler: tuple[str, ...] = several(f"send queries through a pooler: {', '.join(POOLERS)}; several are"
        f" contenders, and '{NONE}' means without one", "NAME,NAME", _known("pooler", NONE, *POOLERS))
    pool_size: tuple[int, ...] = several("server connections that the pooler shares among clients;"
        " several numbers are contenders (default: one for each core)", "N,N", _count_up_to(MOST_CONNECTIONS))
    replicas: tuple[int, ...] = several("make N copies of the server, and let --clients query only these;"
        f" several numbers are contenders, and '{NONE}' is the server itself",
        "N,N", _count_up_to(MOST_REPLICAS, NONE, "0"))

    rounds: int | None = option("build all indexes first, then measure every point once in each of N"
        " rounds, in random order", "N", cli.positive_int)
    until: float | None = option("measure in rounds until every ratio is known within this share, such as"
        " 5%%, or its interval excludes 1", "SHARE", cli.read_by(read_share))
    budget: float | None = option("measure in rounds for this time, such as 10m, builds not counted; with"
        " --until, at most this long", "TIME", cli.read_by(read_time))

    workload: str | None = option("inserts: insert rows into an empty index; writes: write rows while"
        " --clients query. --duration is how long rows are written (default: 900 s for inserts, 300 s for"
        " writes)", choices=tuple(SECONDS))
    writers: tuple[int, ...] = several(
        "write on N connections, then on M, ... (default: 1 for inserts, 4 for writes)", "N,M",
        cli.positive_ints)
    write_rate: tuple[float, ...] = several("send R writes per second, then S, ...; latency counts from"
        " when a write was due", "R,S", cli.positive_floats)
    write_mix: Mix | None = option(
        "shares of the kinds of writes (default: insert:50,update:25,delete:25)", "MIX",
        cli.read_by(Mix.parse))
    loaded: float | None = option("share of the rows that are loaded and indexed at first (default: 0.8 for"
        " writes; for inserts 0, or 0.1 if an index cannot be built without rows)",
        "SHARE", cli.share("share", with_zero=True))

    tiers: str | None = option("measure on simulated servers: auto, mini, short, 5m, 100m, 1b, or"
        " shared_buffers:RAM in GB, such as 2:8,4:16+4cpus", "TIERS")
    tier_method: str | None = option("how memory is limited with --local: by a control group for the"
        " server, or by reserving huge pages of the machine (default: auto)",
        choices=("auto", "hugepages", "cgroup"))

    experiment: str | None = option(
        "run experiments/FILE.yml, or a file of your own; other options override those in it", "FILE")
    mini: bool = switch("with --experiment: run it with less data, for a laptop")
# fmt: on


def option_words(name: str, value: Any) -> list[str]:
    """Return an option with its value in an experiment's file as words of a command line."""
    if value is None or value is False:
        return []
    words = [str(one) for one in (value if isinstance(value, list) else [value]) if one is not True]
    takes_words = "nargs" in CommandLine.__dataclass_fields__[name.replace("-", "_")].metadata
    return [f"--{name}", *(words if takes_words or not words else [",".join(words)])]


def make_parser(program: str = "run.py", tiers: str | None = None) -> argparse.ArgumentParser:
    """Return what reads the command line; `tiers` is the default of --tiers."""
    parser = cli.Parser(
        prog=program,
        description="Measure algorithms on a dataset. Finished points are kept and not measured again.",
        formatter_class=cli.HelpWithDefaults,
    )
    add = parser.add_argument
    for each in fields(CommandLine):
        if each.name in GROUPS:
            add = parser.add_argument_group(GROUPS[each.name]).add_argument
        how = {"default": [] if each.default == () else each.default, **each.metadata}
        add(*filter(None, [how.pop("flag", None), cli.option_name(each.name)]), **how)
    parser.set_defaults(tiers=tiers)
    return parser
