"""What clients measure, for tests: made by hand, and read."""

from contextlib import closing
from typing import Any

import numpy as np

from ann_benchmarks.load.samples import ClientAnswers


def made_answers(
    numbers: Any, sent: Any, answered: Any, due: Any = None, cpu: float = 0.0, rows: Any = None
) -> ClientAnswers:
    """A client's answers without ids, each of one row if nothing else is said."""
    rows = np.ones(len(sent), np.int64) if rows is None else np.asarray(rows)
    none = np.empty(0, np.int64)
    return ClientAnswers(np.asarray(numbers), due, sent, answered, rows, none, none.reshape(0, 0), none, cpu)


def ids_of(given: Any) -> dict[int, list[int]]:
    """The ids of a client's sample of answers, by the numbers of the queries."""
    return dict(zip(given.sampled.tolist(), given.ids.tolist(), strict=True))


def by_clients(algorithm: Any, queries: Any, count: int = 10, clients: int = 3) -> tuple[Any, Any]:
    """Have the queries answered by clients; return the ids by query, and what the clients tell."""
    with closing(algorithm.open_clients(queries, count, clients)) as opened:
        opened.prepare([np.arange(i, len(queries), clients) for i in range(clients)])
        opened.run()
        found = {number: ids for run in opened.answers() for number, ids in ids_of(run).items()}
        return [found[number] for number in range(len(queries))], opened.facts()
