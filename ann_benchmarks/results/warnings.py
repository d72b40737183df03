"""What the reader of the figures should be warned of, each with the results that it concerns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ann_benchmarks.common.numbers import figure_text
from ann_benchmarks.common.text import from_json

from .comparable import clients
from .environment import in_words
from .length import length_remark
from .measurement import has_mean_throughput
from .runs import LeftOut, Run, unusable_distances

SLOWER = 1.25  # times the CPU for a query, from which on it is told
OFF = 0.01  # of a tier's memory, from which on it is told
MOST_NAMED = 3  # results that are named by a warning
FIGURE = re.compile(r"(?<![A-Za-z])\d[\d.,]*")  # not that of p99
MACHINE = ("cpu", "cores", "memory_bytes", "kernel")


class Remark(str):
    """What is to be known of a result, and how bad it is beside others that differ in figures alone."""

    severity: float

    def __new__(cls, text: str, severity: float) -> "Remark":
        """Take the text, and a number that is the larger the worse it is."""
        made = super().__new__(cls, text)
        made.severity = severity
        return made


def warnings_of(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return each warning with the names of the results that it concerns."""
    found: list[tuple[str, str]] = []
    slower = slower_times(runs)
    for place, run in enumerate(runs):
        more = [of_slowness(slower[place])] if place in slower else []
        texts = dict.fromkeys([*warnings_of_one(run), *more])
        found += [(text, f"{run.algorithm}: {run.parameters}") for text in texts]
    return [*gathered(found), *((text, []) for text in of_all(runs))]


def gathered(remarks: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return each kind of (text, name) once, with all of its names.

    Texts that differ in figures alone are one kind. It has the worst text, and the name of that one comes
    first. Of texts that are no Remark, the worst has the largest figures: what it advises suffices for all.
    """
    kinds: dict[str, list[tuple[str, str]]] = {}
    for text, name in remarks:
        kinds.setdefault(FIGURE.sub("#", text), []).append((text, name))
    found = []
    for group in kinds.values():
        worst = max(range(len(group)), key=lambda place: _badness(group[place][0]))
        names = [name for _, name in group]
        found.append((group[worst][0], [names[worst], *names[:worst], *names[worst + 1 :]]))
    return found


def _badness(text: str) -> list[float]:
    return [text.severity] if isinstance(text, Remark) else _figures(text)


def _figures(text: str) -> list[float]:
    """Return the figures of a text from the last one, which is mostly what is advised."""
    return [float(figure.replace(",", "").rstrip(".") or 0) for figure in FIGURE.findall(text)][::-1]


def warnings_of_one(run: Run) -> Iterator[str]:
    """Yield the warnings about one result."""
    for told in (remarks, of_data, of_target, of_build, of_runs, of_tier):
        try:
            yield from told(run.attrs)
        except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError):
            yield "the attributes of the result file cannot be read"


def slower_times(runs: Sequence[Run]) -> dict[int, float]:
    """Return which results took how many times the CPU for a query that the same took with more clients.

    More clients share caches and cores, so that a query takes more CPU and not less. Only results whose
    blocks are all in memory are looked at, and one server's times as it counts them.
    """
    same: dict[tuple[Any, ...], list[tuple[int, float, int]]] = {}
    for place, run in enumerate(runs):
        cpu, read = (
            run.attrs.get(f"{name}_per_query") for name in ("server_cpu_seconds", "index_blocks_read")
        )
        if isinstance(cpu, float) and cpu > 0 and isinstance(read, (int, float)) and read < 1:
            key = (run.dataset, run.count, run.series.family, run.parameters, run.attrs.get("tier"))
            same.setdefault(key, []).append((clients(run), cpu, place))
    found = {}
    for group in same.values():
        for number, cpu, place in group:
            others = [other for more, other, _ in group if more > number]
            if others and cpu > SLOWER * min(others):
                found[place] = cpu / min(others)
    return found


def of_slowness(times: float) -> str:
    """Say that the machine was slower when a result was measured."""
    return (
        f"a query took {figure_text(times)} times the CPU time that it took with more clients: the machine"
        " was slower, or others used it; measure again (--force) before comparing"
    )


def of_data(attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what makes a recall look higher or lower than it is."""
    if repeated := attrs.get("queries_in_train"):
        yield (
            f"{repeated:,} queries are rows of the training set: each finds itself, which raises the recall;"
            " take other queries"
        )
    if unmatched := attrs.get("queries_without_matches"):
        yield f"{unmatched:,} queries have no matching row: each counts as found, with a recall of 1"
    if text := unusable_distances(attrs):
        yield text


def of_left_out(left_out: LeftOut) -> Iterator[tuple[str, list[str]]]:
    """Yield why files were left out, with their names."""
    reasons: dict[str, list[str]] = {}
    for path, error in left_out.items():
        reasons.setdefault(str(error).removeprefix(f"{path} "), []).append("/".join(path.parts[-2:]))
    for reason, names in reasons.items():
        yield f"left out of all that follows: {reason}", names


def of_target(attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the recall that was searched for is not there."""
    if missed := attrs.get("target_missed"):
        parameter = attrs.get("target_parameter")
        searched = f" with the largest {parameter} available" if parameter else ""
        yield f"the target recall {missed:g} was not reached{searched}"


def of_build(attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to be known of the build."""
    if rows := attrs.get("graph_overflow_rows"):
        yield (
            f"the graph outgrew maintenance_work_mem after {rows:,} rows: the build took longer than it would"
            " with more memory"
        )
    elif "no longer fits into" in str(attrs.get("build_notices", "")):
        yield "the index outgrew maintenance_work_mem: the build took longer than it would with more memory"
    if attrs.get("index_reused") and "tier" not in attrs:  # no index is built on a tier
        yield "the index was built by an earlier run: its build time is from then"


def of_runs(attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to be known of the runs of a point."""
    seconds = attrs.get("run_seconds")
    if attrs.get("runs_disagree") and isinstance(seconds, list):
        slowest, fastest = figure_text(1 / max(seconds)), figure_text(1 / min(seconds))
        yield Remark(
            f"the runs differ by more than noise: from {slowest} to {fastest} queries/s",
            max(seconds) / min(seconds),
        )
    if not has_mean_throughput(attrs):
        yield (
            f"the throughput is that of the best of {attrs['run_count']} runs: ann-benchmarks stores no other"
            "; compare it with the best runs of others (qps-best)"
        )
    if int(attrs.get("run_count", 3)) < 3:
        yield "fewer than three runs: there is no interval"


def of_tier(attrs: Mapping[str, Any]) -> Iterator[str]:
    """Yield how far the memory was from what the tier was to have."""
    available, asked = attrs.get("tier_available"), attrs.get("tier_ram")
    if available and asked and abs(available / asked - 1) > OFF:
        off = available / asked - 1
        more = "more" if off > 0 else "less"
        yield Remark(f"the tier had {abs(off):.1%} {more} available RAM than intended", abs(off))


def of_all(runs: Sequence[Run]) -> Iterator[str]:
    """Yield what no single result shows."""
    yield from of_environments(runs)
    machines = {tuple(run.attrs.get(name) for name in MACHINE) for run in runs}
    if len(machines) > 1:
        yield (
            f"the results come from {len(machines)} machines, or from one that changed (CPU, cores, memory or"
            " kernel): the machine may explain the differences"
        )
    if again := sum(int(run.attrs.get("runs_measured_again") or 0) for run in runs):
        made = sum(int(run.attrs.get("run_count") or 1) for run in runs)
        yield (
            f"others took more than {MOST_OTHERS:.0%} of the machine's CPUs in some runs: {again:,} were left"
            f" out and measured again; {made:,} are counted"
        )
    marks: dict[tuple[str, int], set[Any]] = {}
    for run in runs:
        marks.setdefault((run.dataset, run.count), set()).add(run.attrs.get("truth"))
    if any(None in found for found in marks.values()):
        yield "some results do not state which true neighbours they were measured against"


def of_environments(runs: Iterable[Run]) -> Iterator[str]:
    """Yield in what the servers of results differ, apart from releases that name their series."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, value in run.facts.items():
            if name not in ("cpu", "cores", "memory") and value != run.series.version:
                found.setdefault(name, {})[in_words(name, value)] = None
    differing = [" and ".join(sorted(values)) for values in found.values() if len(values) > 1]
    if differing:
        yield (
            f"the results come from several servers ({'; '.join(differing)}): these may explain what differs"
        )


MUCH_WAITING = 0.1  # of the time, or of the queries


FEW_QUERIES = 100
MOST_OTHERS = 0.1  # share of the CPUs that others took, beyond which a run is disturbed
BUSY_POOLER = 0.9  # of one core
RECALL_CHANGED = 0.01  # between the runs of one point


def remarks(facts: Mapping[str, Any]) -> list[str]:
    """Say what the reader of a figure should know about it."""
    said: list[str] = []
    if facts.get("clients_were_limit"):
        text, severity = _limit_of_clients(facts)
        said.append(Remark(f"the clients, not the server, were the limit: {text}", severity))
    if (busy := facts.get("pooler_busy_share", 0)) > BUSY_POOLER:
        said.append(
            Remark(f"the pooler, not the index, was the limit: its one thread was {busy:.0%} busy", busy)
        )
    if facts.get("warmup_settled") is False:
        said.append(
            f"the throughput still rose after {facts['warmup_seconds']:.0f} s of warm-up: give --warmup N"
        )
    filled = [share for share in facts.get("run_sent_once") or [] if share]
    if len(filled) > 1 and min(filled) < 1:  # with enough memory, caches are filled once
        said.append(
            Remark(
                f"caches had to be filled before {len(filled)} of {len(facts['run_sent_once'])} runs, and"
                f" only {min(filled):.0%} of the queries could be sent meanwhile: with warm caches, the"
                " throughput may be higher",
                -min(filled),
            )
        )
    if facts.get("queries_unanswered"):
        said.append(
            Remark(
                f"the rate was not kept: {facts['queries_unanswered']:,} of {facts['queries_due']:,} queries"
                " were still waiting at the end",
                facts["queries_unanswered"] / facts["queries_due"],
            )
        )
    elif facts.get("steady_state") is False:
        said.append("the queue still grew: the latencies are those of this run's length, not of the rate")
    if text := length_remark(facts):
        said.append(text)
    if facts.get("clients_all_busy_share", 0) > MUCH_WAITING:
        said.append(
            Remark(
                f"{facts['clients_all_busy_share']:.0%} of the queries found no free client among"
                f" {facts['clients']}: if the server can do more, more --clients will show it",
                facts["clients_all_busy_share"],
            )
        )
    if facts.get("queries_counted", FEW_QUERIES) < FEW_QUERIES:
        said.append(
            Remark(
                f"only {facts['queries_counted']:.0f} queries were counted: give --max-queries or --duration",
                -facts["queries_counted"],
            )
        )
    if disturbed := [share for share in facts.get("run_others_cpu") or [] if share > MOST_OTHERS]:
        said.append(
            Remark(
                f"others took up to {max(disturbed):.0%} of the machine's CPUs in {len(disturbed)} of"
                f" {len(facts['run_others_cpu'])} runs: measure again (--force) when it is idle",
                max(disturbed),
            )
        )
    recalls = facts.get("run_recalls") or [0.0]
    if max(recalls) - min(recalls) > RECALL_CHANGED:
        said.append(
            Remark(
                f"the recall was between {min(recalls):.4g} and {max(recalls):.4g} in its runs: the table or"
                " the index has changed meanwhile",
                max(recalls) - min(recalls),
            )
        )
    if shortened := facts.get("answers_shortened"):
        said.append(
            Remark(
                f"{shortened:,.0f} of {facts['queries_counted']:,.0f} answers had fewer rows than another one"
                " to the same query: the table or the index has changed meanwhile",
                shortened / facts["queries_counted"],
            )
        )
    if aside := facts.get("queries_answered_aside"):
        said.append(f"{aside:,} of the answers that the recall is of were not given in the runs")
    if facts.get("caches_dropped") is False:
        said.append("this server cannot be restarted from here: only the first run may have been cold")
    return said


def _limit_of_clients(facts: Mapping[str, Any]) -> tuple[str, float]:
    """Say what the clients were short of, and how much."""
    if facts["loop"] == "open" and not facts["queries_unanswered"]:
        late, service = facts["clients_late_seconds"], facts["service_p50"]
        text = f"free clients sent queries {late * 1e3:.2f} ms late, an answer takes {service * 1e3:.2f} ms"
        return text, late / service if service else late
    if facts.get("clients_waiting_share", 1) < 0.8:
        share = facts["clients_waiting_share"]
        return f"they waited for answers only {share:.0%} of the time", -share
    share = facts["client_cpu_share"]
    return f"they used {share:.0%} of their machine's CPU, and none was left", share


def main_wait(facts: Mapping[str, Any]) -> str:
    """Name what the sessions mostly waited for, other than a CPU or their client, if it was much."""
    shares = {
        event: share
        for event, share in from_json(facts.get("wait_events"), dict[str, Any]()).items()
        if event not in ("CPU", "idle") and not event.startswith("Client:")
    }
    event = max(shares, key=lambda name: shares[name], default="")
    return f"{event} {shares[event]:.0%} of the time" if event and shares[event] >= MUCH_WAITING else ""
