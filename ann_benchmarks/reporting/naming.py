"""How a built index is called: its algorithm, and the build arguments in which others of it differ."""

from collections.abc import Iterable

from ann_benchmarks.results.built import build_arguments
from ann_benchmarks.results.comparable import family
from ann_benchmarks.results.runs import Run


class IndexNames:
    """The names of the indexes that some results were measured on."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Compare the build arguments of each algorithm."""
        self._arguments: dict[str, list[dict[str, str]]] = {}
        for run in runs:
            known = self._arguments.setdefault(family(run), [])
            arguments = build_arguments(run)
            if arguments not in known:
                known.append(arguments)

    def of(self, run: Run) -> str:
        """Return the name of the index of one of the results."""
        arguments, others = build_arguments(run), self._arguments[family(run)]
        told = [text for name, text in arguments.items() if any(other.get(name) != text for other in others)]
        return f"{family(run)} ({', '.join(told)})" if told else family(run)
