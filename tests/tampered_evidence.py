"""What helps a submitter most: throughput without latencies, no evidence, decoys, copies, chosen rounds."""

import shutil
from pathlib import Path

import h5py
import numpy as np

from .bundle_data import attributes, point_files, set_arrays, set_attributes
from .load_bundles import BATCH, OPEN, TURNS
from .tampered_loads import of
from .tampering import RESULTS, Change, Tampering, attrs, faster, first, relabelled, scaled


def copied_point(scale: float, hours: float) -> Change:
    """Hand in a point by one client as the one by two, its latencies shuffled and scaled, moved in time."""

    def change(folder: Path) -> None:
        target = point_files(folder, "part-c2")[0]
        known, own = attributes(first(folder)), attributes(target)
        shutil.copy(first(folder), target)
        started = [one + 3600 * hours for one in known["run_started"]]
        set_attributes(target, series=own["series"], algo="part-c2", clients=2, run_started=started)
        shuffled = np.random.default_rng(0).permutation
        set_arrays(target, times=lambda times: shuffled(times) * np.float32(scale))

    return change


def decoyed(folder: Path) -> None:
    """Leave a point out, add one with other build arguments, and have a decoy among them."""
    low, high = point_files(folder)
    target = {"target_parameter": "share", "target_value": 800, "target_recall": 0.5}
    other = high.with_name("euclidean_9_800.hdf5")
    shutil.copy(high, other)
    set_attributes(other, build_arguments='["euclidean", 9]')
    low.unlink()
    set_attributes(high, **target)
    high.rename(high.with_name("euclidean_8_target_recall_0_5.hdf5"))


def selected(*places: int, only_first: bool = False) -> Change:
    """Keep some of the rounds of all contenders, or of one, and number them anew."""

    def change(folder: Path) -> None:
        paths = sorted((folder / RESULTS / TURNS).glob("*.hdf5"))
        for path in paths[:1] if only_first else paths:
            known = attributes(path)
            names = [name for name in known if name.startswith("run_") and isinstance(known[name], list)]
            lists = {name: [known[name][place] for place in places] for name in names}
            rounds = [*range(1, len(places) + 1)]
            set_attributes(path, **lists | {"run_rounds": rounds, "run_count": len(places)})

    return change


def with_samples(by: float | None) -> Change:
    """Scale the time of what monitoring has sampled in all of hour-long runs; None: remove it."""

    def change(folder: Path) -> None:
        with h5py.File(first(folder), "r+") as file:
            if by is None:
                del file["monitoring"]
                return
            file["monitoring/seconds"][()] *= by
        known = attributes(first(folder))
        set_attributes(first(folder), asking_seconds=known["asking_seconds"] + 60)

    return change


BY_PGBENCH = relabelled("part-c1", {"driver": "pgbench", "pgbench_version": "18.1"}, driver="pgbench")
EVIDENCE = (
    Tampering("a throughput without latencies", "timings", "says best_search_time", faster(100)),
    Tampering("the same as by pgbench", "series", "driver",
              faster(100, driver="pgbench", pgbench_version="18.1")),
    Tampering("under another driver's series", "timings", "says driver pgbench",
              lambda folder: [faster(100)(folder), BY_PGBENCH(folder)]),
    Tampering("a decoy with a target", "division", "no run group", decoyed),
    Tampering("a point beside a decoy left out", "complete", "is missing from its curve", decoyed),
    Tampering("both ends of a run", "attributes", "'asked_queries', which is stored only of runs of no",
              attrs(asked_queries=500)),
    Tampering("few queries sent", "timings", "says queries_asked 1", attrs(queries_asked=1)),
    *(
        Tampering(f"no {name}", "attributes", f"lacks '{name}'", attrs(**{name: None}))
        for name in ("cores", "client_cpu_share", "clients_waiting_share", "run_started", "recall_low",
                     "queries_asked", "kernel", "framework_version", "runs_disagree", "warmup")
    ),
    Tampering("clients that take no CPU", "timings", "says client_cpu_seconds_per_query",
              attrs(client_cpu_share=1e-6, client_cpu_seconds_per_query=1e-9)),
    Tampering("no samples of monitoring", "attributes", "stored only of samples", with_samples(None)),
    Tampering("samples of less time", "timings", "by its monitoring", with_samples(1e-3)),
    Tampering("a long run of few transactions", "timings", "says best_search_time",
              lambda folder: set_attributes(first(folder), asking_seconds=1e4, server="embedded")),
    Tampering("an index of hardly a byte", "dataset", "says index_size",
              attrs(build_sql='["CREATE INDEX ON items USING x (embedding)"]', index_size=1.0)),
    Tampering("a table of few bits", "dataset", "says table_size",
              attrs(build_sql='["-- for a table items (embedding vector(8))"]', table_size=1.0)),
    Tampering("another setting than the session's", "target", "its session had 80",
              attrs(settings='{"hnsw.ef_search": "80"}', name="HNSW(ef_search=40)")),
    Tampering("another statement than the session's", "target", "its session had 80",
              attrs(settings='{"hnsw.ef_search": "80"}', query_sql='["SET hnsw.ef_search = \'40\';"]')),
    Tampering("a server whose SQL is not known", "attributes", "lacks 'build_sql'", attrs(server="embedded")),
    Tampering("a warm-up in no time", "timings", "says warmup_seconds", attrs(warmup_seconds=0.0)),
    Tampering("a machine without memory", "attributes", "says memory_bytes 0",
              attrs(server="embedded", memory_bytes=0)),
    Tampering("an exact search by an index", "attributes", "has 'is_exact'",
              attrs(server="embedded", is_exact=True)),
    Tampering("CPU of clients", "timings", "says client_cpu_seconds_per_query",
              scaled("client_cpu_share", 0.1)),
    Tampering("a loop of no name", "timings", "says loop", attrs(loop="")),
    Tampering("CPU time of an external server", "timings", "says server_cpu_seconds_per_query",
              attrs(server="external", server_cpu_seconds_per_query=1.0)),
    Tampering("an external server of no address", "attributes", "lacks 'server_address'",
              attrs(server="external")),
    Tampering("a server whose CPUs are not known", "attributes", "lacks 'machine_busy_share'",
              attrs(server="embedded")),
    Tampering("a server without the parts of its build", "attributes", "lacks 'load_time'",
              attrs(postgres_version="18.1", build_time=1e-4)),
    Tampering("a point shuffled and scaled", "duplicate", "distributed as those of", copied_point(1.0007, 0)),
    Tampering("a point moved by an hour", "duplicate", "has runs that compare", copied_point(1, 1)),
    Tampering("a file among the logs", "files", "does not belong to a bundle",
              lambda folder: [(folder / "logs").mkdir(), (folder / "logs/x.exe").touch()]),
)  # fmt: skip
EVIDENCE_OF_LOADS = (
    Tampering("active seconds of a batch", "attributes", "has 'active_seconds'",
              of(BATCH, active_seconds=1.0)),
    Tampering("the last of the rounds", "timings", "has the chain of a race", selected(1, 2, 3)),
    Tampering("the first rounds of one contender", "timings", "with 8 turns (rounds_chain,",
              selected(0, 1, 2, only_first=True)),
    Tampering("the best rounds of one contender", "timings", "has the chain of a race",
              selected(0, 1, 3, only_first=True)),
    Tampering("a contender removed", "timings", "with 8 turns (rounds_chain, rounds_turns), and there are 4",
              lambda folder: min((folder / RESULTS / TURNS).glob("*.hdf5")).unlink()),
    Tampering("rounds without a chain", "attributes", "lacks 'rounds_chain'", of(TURNS, rounds_chain=None)),
    Tampering("another chain", "timings", "has the chain of a race", of(TURNS, rounds_turns=[1] * 4)),
    Tampering("a rate without its queue", "attributes", "lacks 'queries_due'", of(OPEN, queries_due=None)),
)  # fmt: skip
