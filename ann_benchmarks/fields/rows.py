"""The schema of a point: one row for each thing in which two points can differ.

Names of curves and folders, facets, columns, filters of pages, sentences, the checker and comparisons are
loops over these rows. A new field is a row here, an option of run.py and what that does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import fits_classes
from ann_benchmarks.definitions.servers import Pooled, Replicas, Shards

# Groups of fields, in the order in which a label has them.
NAME = ("algorithm", "servers", "settings", "strategy")
SPECIAL = ("load", "writes", "filter", "payload", "caches")
CONDITIONS = ("workload", "clients", *SPECIAL, "tier")
GROUPS = (*NAME, *CONDITIONS, "environment", "batch")

SHUFFLED = "shuffled"
OWN_DRIVER = "own"
FILTERED = "filter-"  # in the name of a folder, before the name of a filter

Text = str | Callable[[Any], str]  # a format of the field's value, or a function of the series


@dataclass(frozen=True)
class Field:
    """One thing in which two points can differ, with all that others need to know of it."""

    name: str
    kind: type  # str, int, float or bool
    group: str  # one of GROUPS
    default: Any  # of a point in which nothing about it is special
    label: Text = ""  # what labels and folders say of another value than the default
    words: Text = ""  # the same in a sentence
    title: str = ""  # heading of columns and filters
    key: str = ""  # short name in columns of pages and selections of experiments, where not the name
    attribute: str = ""  # attribute of a result that has the same value
    is_also_measured: bool = False  # the attribute has the measured value where none was requested
    evidence: str = ""  # attribute that is there where it is not the default; for a number, a list as long
    changes_answers: bool = False  # the same query arguments may give other answers
    compares: bool = True  # results that differ in it may be compared

    @property
    def id(self) -> str:
        """The short name."""
        return self.key or self.name

    @property
    def heading(self) -> str:
        """The title where nothing else says that it is of a tier."""
        return f"{self.title} of the tier" if self.group == "tier" else self.title

    def write(self, text: Text, series: Any) -> str:
        """Write the label or the words for a series."""
        return text.format(getattr(series, self.name)) if isinstance(text, str) else text(series)

    def takes(self, value: Any) -> bool:
        """Whether a stored value can be one of this field."""
        optional = (type(None),) if self.default is None else ()
        return fits_classes(value, (self.kind, *optional))


def chosen_fields(*names: str) -> Iterator[Field]:
    """Yield the fields of these names or groups."""
    return (field for field in FIELDS.values() if field.name in names or field.group in names)


_ROWS = (
    Field("algorithm", str, "algorithm", "", "{}", changes_answers=True),
    Field("version", str, "algorithm", "", "{}", "{}", changes_answers=True),  # the tag that the user named
    Field("batch", bool, "batch", False, attribute="batch_mode"),
    # Without clients, the algorithm's own process sends one query after the other.
    Field("clients", int, "clients", None, "c{}", lambda series: f"by {counted(series.clients, 'client')}",
          "Clients", attribute="clients"),
    # Or same, single, zipf:S.
    Field("query_order", str, "load", SHUFFLED, lambda series: series.query_order.replace(":", ""),
          "queries in the order {}", "Order of the queries", "order", "query_order"),
    Field("distinct_queries", int, "load", None, "q{}", "with {:,} different queries", "Different queries",
          attribute="distinct_queries"),
    # Requested queries per second; None: a closed loop, or an objective.
    Field("rate", float, "load", None, "r{:.12g}", "at {:.12g}/s", "Requested queries/s", attribute="rate",
          is_also_measured=True),
    # Such as p99:50ms, for which the highest rate was searched.
    Field("objective", str, "load", "", lambda series: f"slo-{series.objective}".replace(":", "-"),
          "within {}", "Objective", attribute="objective"),
    # Or pgbench, in results of earlier versions.
    Field("driver", str, "load", OWN_DRIVER, "{}", "by {}", "Driver", attribute="driver"),
    Field("is_cold", bool, "caches", False, "cold", "with cold caches", key="cold"),
    Field("workload", str, "workload", "", "{}", attribute="workload"),  # inserts or writes
    Field("writers", int, "writes", None, "w{}", attribute="writers"),
    Field("write_rate", float, "writes", None,
          lambda series: f"r{series.write_rate:.12g}-mix{series.write_mix}", attribute="write_rate"),
    Field("write_mix", str, "writes", ""),  # shares of inserts, updates and deletes in %, such as 50-25-25
    Field("loaded", float, "writes", None, "l{:.12g}"),  # requested share of rows that were there at first
    Field("autovacuum", bool, "writes", False, "autovacuum", attribute="autovacuum"),
    # hugepages, cgroup or container.
    Field("tier_method", str, "tier", "", "{}", "", "Method", "method", "tier_method"),
    Field("tier_cpus", int, "tier", None, "{}cpus", "with {} CPUs", "CPUs", "cpus", "tier_cpus"),
    Field("tier_disk", str, "tier", "", "{}", "on the disk {}", "Disk", "disk", "tier_disk"),
    Field("tier_memory", str, "tier", "", "{}"),  # such as sb2GB-ram8GB
    # What distinguishes its server from another one with results of the same.
    Field("environment", str, "environment", "", words="{}"),
    # The filter set of its queries, such as uniform:0.01.
    Field("filter", str, "filter", "", lambda series: f"{FILTERED}{series.filter}".replace(":", "-"),
          "under the filter {}", "Filter", attribute="filter", changes_answers=True, compares=False),
    # Times k rows were requested, and filtered afterwards.
    Field("post_filter", float, "strategy", None, "post{:.12g}", "of {:.12g} times as many rows",
          attribute="post_filter", changes_answers=True),
    # What came back beside the ids: text or vector.
    Field("payload", str, "payload", "", "payload-{}", "with the payload {}", evidence="payload_bytes"),
    # Those that were compared, such as "jit=off work_mem=64MB".
    Field("settings", str, "settings", "", lambda series: series.settings.replace(" ", "-"), "{}",
          "Settings compared", changes_answers=True),
    Field("shards", int, "servers", None,
          lambda series: f"{Shards(series.shards, series.shard_engine)}{series.shard_probes or ''}",
          "{} shards", "Shards", evidence="shard_build_times", changes_answers=True),
    Field("shard_engine", str, "servers", "", "", "asked by {}", "Asked by", "engine", changes_answers=True),
    # Of results of earlier versions, whose queries asked some shards; None: all.
    Field("shard_probes", int, "servers", None, "", "{} of them", "Shards asked", "probes", "shard_probes",
          changes_answers=True),
    # Such as pgbouncer:transaction.
    Field("pooler", str, "servers", "", lambda series: str(Pooled(series.pooler, series.pool_size)),
          "through {}", "Pooler", evidence="pooler_version"),
    # Where it was requested.
    Field("pool_size", int, "servers", None, "", "with {} connections", "Connections of the pooler", "pool",
          "pooler_pool_size", is_also_measured=True),
    # They were queried in place of their primary.
    Field("replicas", int, "servers", None, lambda series: str(Replicas(series.replicas)),
          lambda series: counted(series.replicas, "replica"), "Replicas", evidence="replica_queries"),
)  # fmt: skip
FIELDS = {row.name: row for row in _ROWS}
