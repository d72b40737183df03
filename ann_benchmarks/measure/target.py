"""The point at a recall: the smallest query argument that reaches it, searched for or known from before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.jobs.places import value_found_before
from ann_benchmarks.load.search import ROUNDING, overstatement, smallest_reaching
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.plugin import SearchedArgument
from ann_benchmarks.results.measurement import OVERSTATED
from ann_benchmarks.results.remarks import Remark

from .timed import Subject


@dataclass(frozen=True, eq=False)
class TargetSearch:
    """A search on one built index.

    `recalls` gives each query's recall, (queries,), of answers (queries, at least count); `answers` has all
    queries answered once with the arguments as set; `note` reports something that stops nothing.
    """

    subject: Subject
    target: float
    recalls: Callable[[np.ndarray], np.ndarray]
    answers: Callable[[], np.ndarray]
    note: Callable[[str], object]

    def measure(
        self,
        measure_runs: Callable[[], list[Measured]],
        neighbors_of: Callable[[list[Measured]], np.ndarray],
        found_before: Sequence[Mapping[str, Any]],
        index: Mapping[str, Any],
    ) -> tuple[list[Measured], dict[str, Any]]:
        """Measure where the recall is first reached; return the runs, and what is stored of the search.

        A value that another curve of the same index has found is taken, and searched anew only where it does
        not reach the recall here. `index` identifies it. An algorithm without a choice is measured as it is.
        """
        plugin = self.subject.plugin
        search = plugin.search_range(self.subject.count)
        if search is None:
            runs = measure_runs()
            recall = float(self.recalls(neighbors_of(runs)).mean())
            if recall >= self.target - ROUNDING:
                return runs, {}
            self._say_missed(recall, "without a choice")
            return runs, {"target_missed": self.target}
        known = value_found_before(found_before, search.parameter, search.values, index)
        if known is not None:
            plugin.set_query_arguments(*search.arguments(known.value))
            runs = measure_runs()
            if self.recalls(neighbors_of(runs)).mean() >= self.target - ROUNDING:
                return runs, self._facts(search, known.value, True, 0) | selection_facts(known.overstated)
        found_facts = self.search(search, first_place(found_before, search))
        return measure_runs(), found_facts

    def search(self, search: SearchedArgument, first: int | None = None) -> dict[str, Any]:
        """Set the smallest query argument that reaches the recall; return what is stored of the search.

        `first` is the place among its values that is tried first.
        """
        plugin = self.subject.plugin
        tried: dict[int, np.ndarray] = {}

        def recall_of(value: Any) -> float:
            plugin.set_query_arguments(*search.arguments(value))
            of_each = self.recalls(self.answers())
            tried[search.values.index(value)] = of_each
            recall = float(of_each.mean())
            bar.set_postfix_str(f"recall {recall:.4f}")
            bar.update()
            return recall

        doing, quiet = f"searching {search.parameter}", self.subject.quiet
        with tqdm(desc=doing, unit="value", disable=quiet, leave=False) as bar:
            step = 1 / (len(self.subject.queries) * self.subject.count)
            found = smallest_reaching(self.target, search.values, recall_of, step, first)
        plugin.set_query_arguments(*search.arguments(found.value))
        if not found.is_reached:
            self._say_missed(found.recall, f"at {search.parameter}={found.value}, its largest value")
        facts = self._facts(search, found.value, found.is_reached, found.trials)
        places = sorted(tried)
        overstated = overstatement(self.target, places, np.array([tried[place] for place in places]))
        return facts | selection_facts(overstated)

    def _say_missed(self, recall: float, where: str) -> None:
        text = f"recall {self.target:g} is not reached, only {recall:.4f} {where}"
        self.note(Remark(text, self.target - recall))

    def _facts(self, search: SearchedArgument, value: Any, is_reached: bool, trials: int) -> dict[str, Any]:
        return {
            "target_recall" if is_reached else "target_missed": self.target,
            "target_parameter": search.parameter,
            "target_value": value,
            "target_trials": trials,
            "target_most": search.values[-1],
        }


def first_place(found: Sequence[Mapping[str, Any]], search: SearchedArgument) -> int | None:
    """Return the place of the value that another index has found last: similar ones need a similar value."""
    known = [
        str(facts["target_value"]) for facts in found if facts.get("target_parameter") == search.parameter
    ]
    places = {str(value): place for place, value in enumerate(search.values)} if known else {}
    return next((places[value] for value in reversed(known) if value in places), None)


def selection_facts(overstated: float | None) -> dict[str, float]:
    """Return what is stored of what a recall owes to the search on the same queries, if it is known."""
    return {} if overstated is None else {OVERSTATED: overstated}
