"""What every workload needs of its job: the data, the plug-in, its query arguments, and what it has kept."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.common.numbers import KIB, size_text
from ann_benchmarks.data.datasets import Dataset
from ann_benchmarks.data.vectors.rows import FirstRows
from ann_benchmarks.fields.series import ATTRIBUTE
from ann_benchmarks.jobs.events import Built, Event, Note, PhaseDone
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.jobs.places import folder_for
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.monitoring import NoMonitor, Phases
from ann_benchmarks.monitoring.stored import monitored, monitored_json
from ann_benchmarks.plugin import Plugin, Writable
from ann_benchmarks.results.environment import environment_of
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, truth_mark
from ann_benchmarks.results.records import Phase, Rate, Record
from ann_benchmarks.statistics.intervals import share_interval

from ..storing import now
from ..target import TargetSearch
from ..timed import Subject, measure
from .over_time import Timeline
from .table_state import ChangingTruth, TableState


class Work:
    """One job that writes, while it is done."""

    def __init__(
        self,
        request: JobRequest,
        plugin: Plugin,
        dataset: Dataset,
        report: Callable[[Event], None],
        monitor: Phases | None = None,
    ) -> None:
        """Open the data; nothing is done yet."""
        job = request.job
        self.monitor = monitor or NoMonitor()
        assert job.procedure.workload is not None
        self.request, self.job, self.plugin, self.dataset, self.report = request, job, plugin, dataset, report
        self.workload: Workload = job.procedure.workload
        self.metric = str(dataset.attrs["distance"])
        if dataset.attrs["type"] != "dense":
            raise UserError(
                f"dataset '{dataset.name}' has sets, which --workload cannot write: take one that has rows"
                " of all dimensions"
            )
        self.train = dataset.train_rows()
        self.queries = np.array(dataset.test())
        self.rows = len(self.train)
        self.quiet = job.execution.quiet
        self.subject = Subject(
            plugin, self.queries, job.count, self.rows, request.conditions, self.monitor, self.quiet
        )
        self.truth = ChangingTruth(self.metric, self.train, self.queries, job.count)
        self.timeline = Timeline(self.workload.seconds)
        self.phases: list[Phase] = []
        self.found: dict[str, Any] = {}
        self.name = job.label()
        self.query_arguments: list[Any] = []
        self.started_at = now()
        loaded = self.workload.rows_loaded(self.rows, plugin.learns_from_rows(self.rows))
        self.state = TableState(self.rows, loaded)
        self.loaded = loaded

    def open_table(self) -> Writable:
        """Have the plug-in make the table, with the rows that are there at first, and its index."""
        plugin, execution = self.plugin, self.job.execution
        plugin.set_load_options(execution.load_threads, execution.chunk_size)
        has_key = self.workload.kind == "writes"
        started = time.perf_counter()
        plugin.set_phase_listener(self.monitor.enter)
        with self.monitor.phase("build"):
            table = plugin.open_writable(FirstRows(self.train, self.loaded), self.rows, has_key)
        facts = plugin.get_additional()
        self.report(Built(facts.get("build_time", time.perf_counter() - started), facts["index_size"]))
        return table

    def set_query_arguments(self) -> None:
        """Set those of the point, or search for those that reach the recall on the table as it is."""
        job = self.job
        target = job.procedure.target_recall
        if target is None:
            self.query_arguments = job.points[0]
            self._set(self.query_arguments)
            return
        search = self.plugin.search_range(job.count)
        if search is None:
            return
        distances = self.truth.distances(self.state)
        one_by_one = replace(self.subject, queries=[np.array(query) for query in self.queries])
        self.found = TargetSearch(
            self.subject,
            target,
            lambda ids: self.truth.recalls(self.state, ids, distances),
            lambda: measure(one_by_one, False).neighbors,
            self.note,
        ).search(search)
        self.query_arguments = search.arguments(self.found["target_value"])

    def check_plan(self) -> None:
        """Have the plug-in see that a session that is opened now would use the index, as all do."""
        self._set(self.query_arguments)
        self.plugin.query(self.queries[0], self.job.count)

    def _set(self, arguments: list[Any]) -> None:
        if arguments:
            self.plugin.set_query_arguments(*arguments)

    def bar(self, doing: str) -> "tqdm[Any]":
        """Return a bar that goes to 1, which shows the time left."""
        form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        return tqdm(total=1.0, desc=doing, bar_format=form, leave=False, disable=self.quiet)

    def add_phase(self, table: Writable, recalls: np.ndarray, **what: Any) -> Phase:
        """Keep a phase, with what the table is at its end, and say what was measured."""
        recall = share_interval(recalls)
        self.timeline.tell_recall(float(recalls.mean()))
        sizes = table.sizes()
        what["facts"] = what.get("facts", {}) | table.statistics()
        phase = Phase(
            recall=float(recalls.mean()),
            recall_low=recall.low,
            recall_high=recall.high,
            rows=len(self.state.ids),
            index_size=sizes["index_size"],
            table_size=sizes["table_size"],
            **what,
        )
        self.phases.append(phase)
        self.report(PhaseDone(f"{self.name}: {describe_phase(phase)}"))
        return phase

    def note(self, text: str) -> None:
        """Tell the user something that stops nothing."""
        self.report(Note(f"{self.name}: {text}"))

    def remark(self, text: str, phase: str = "") -> None:
        """Tell the user what is to be known of the figures, or of those of a phase."""
        self.report(Note.about(f"{self.name}, {phase}" if phase else self.name, text))

    def record(self) -> Record:
        """Return all of it."""
        job, workload = self.job, self.workload
        attrs = {
            **host_facts(),
            **self.request.all_facts,
            **(self.request.conditions.facts if self.request.conditions is not None else {}),
            "started_at": self.started_at,
            "ended_at": now(),
            TRUTH_ATTRIBUTE: truth_mark(self.dataset.true_distances(job.count)),
            "build_arguments": job.definition.arguments,
            "distance": self.metric,
            "dimension": self.train.shape[1],
            "rows": self.rows,
            "rows_loaded": self.loaded,
            "learns_from_rows": self.plugin.learns_from_rows(self.rows),
            "rate_interval": "95%, of the rates in equal pieces of the time",
            **self.plugin.get_additional(),
            **workload.facts,
            **self.found,
        }
        job = replace(job, environment=folder_for(environment_of(attrs), self.request.environments))
        attrs |= {ATTRIBUTE: job.series.dump_json()}
        phases = [replace(phase, facts=plain(phase.facts)) for phase in self.phases]
        sampled = monitored(self.monitor.cut())
        return Record(
            workload=workload.kind,
            dataset=job.dataset,
            count=job.count,
            algo=job.series.label,
            name=str(self.plugin),
            arguments=job.definition.arguments,
            query_arguments=self.query_arguments,
            clients=workload.clients,
            writers=workload.writers,
            rate=workload.rate,
            phases=phases,
            windows=self.timeline.columns,
            monitoring=monitored_json(sampled) if sampled else None,
            attrs=plain(attrs),
            path=job.path(job.points[0]),
        )


def describe_phase(phase: Phase) -> str:
    """Say on one line what a phase has measured."""
    parts = [f"{kind}s {_rate(rate)}" for kind, rate in phase.writes.items()]
    if phase.queries is not None:
        parts.insert(0, f"queries {_rate(phase.queries)}")
    took = f" in {phase.seconds_to_reach:.1f} s" if phase.seconds_to_reach is not None else ""
    recall = f"recall {phase.recall:.4f} ({phase.recall_low:.4f} to {phase.recall_high:.4f})"
    size = f"{phase.rows:,} rows, index {size_text(phase.index_size, KIB)}"
    return f"{phase.name}{took}: " + "; ".join([*parts, recall, size])


def _rate(rate: Rate) -> str:
    known = [(name, rate.percentile(name)) for name in ("p50", "p99")]
    latencies = [f"{name} {seconds * 1e3:.2f} ms" for name, seconds in known if seconds is not None]
    return ", ".join([f"{rate.per_second:,.1f}/s ({rate.low:,.1f} to {rate.high:,.1f})", *latencies])


def plain(value: Any) -> Any:
    """Return what JSON can hold, of numbers as NumPy has them."""
    return json.loads(json.dumps(value, default=lambda part: part.tolist()))
