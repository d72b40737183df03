"""pgbench's log of all queries, as what its clients have measured."""

from pathlib import Path
from typing import Any

import numpy as np

from .work import Answers

_CLIENT, _NUMBER, _TOOK, _SCRIPT, _SECONDS, _MICROSECONDS, _LATE = range(7)


def read_log(prefix: Path, has_rate: bool) -> np.ndarray[Any, Any]:
    """Read the log, of which each of pgbench's threads has written a part: (queries, 6 or 7), whole numbers.

    The columns: client, which query of the client, microseconds that it took, script, when it was answered
    (seconds, microseconds; wall clock), and, at a rate, by how many microseconds it was sent too late. At a
    rate, what it took counts from when it was due.
    """
    parts = [np.fromfile(path, np.int64, sep=" ") for path in prefix.parent.glob(f"{prefix.name}.*")]
    return np.concatenate([np.empty(0, np.int64), *parts]).reshape(-1, 7 if has_rate else 6)


def answers_of(log: np.ndarray[Any, Any], clients: int, cpu_seconds: float) -> list[Answers]:
    """Return what each client has measured, in s from when the first query of all was sent or due.

    Which queries they were is not in the log: the numbers are -1. `cpu_seconds`, of all, is shared out.
    """
    answered = log[:, _SECONDS] * 1_000_000 + log[:, _MICROSECONDS]
    began = answered - log[:, _TOOK]
    first = began.min() if len(log) else 0
    has_rate = log.shape[1] > _LATE
    answers = []
    for client in range(clients):
        own = np.flatnonzero(log[:, _CLIENT] == client)
        own = own[np.argsort(log[own, _NUMBER])]
        due = (began[own] - first) / 1e6
        answers.append(
            Answers(
                numbers=np.full(len(own), -1),
                due=due if has_rate else None,
                sent=due + log[own, _LATE] / 1e6 if has_rate else due,
                answered=(answered[own] - first) / 1e6,
                ids={},
                cpu_seconds=cpu_seconds / clients,
            )
        )
    return answers
