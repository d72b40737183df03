"""The interface between the framework and an algorithm; docs/plugins.md explains it with an example."""

from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import psutil

Ids = Sequence[int] | np.ndarray


class BaseANN:
    """An algorithm under test: constructed with a definition's build arguments, then fitted, then queried.

    docs/plugins.md lists further methods, which the framework uses where a plug-in has them. They are not
    defined here because their presence is what counts.
    """

    name: str
    # True: fit() is given the dataset as it lies on disk (sliceable, with .shape and .dtype), which may be
    # larger than memory. False: an array, possibly memory-mapped; changing it does not change the file.
    streams_training_set = False

    def fit(self, X: Any) -> None:
        """Build the index over the rows of `X`, whose numbers are the ids that queries return."""

    def query(self, q: Any, n: int) -> Ids:
        """Return the ids of about the `n` nearest rows, nearest first, none twice; fewer is allowed."""
        return []

    def batch_query(self, X: Any, n: int) -> None:
        """Answer all queries and keep the answers; by default on one thread a core."""

        def answer(q: Any) -> tuple[Any, BaseException | None]:
            try:
                return self.query(q, n), None
            except BaseException as error:  # also what ends a thread of a pool, which waits for its answer
                return None, error

        with ThreadPool() as pool:
            answers = pool.map(answer, X)
        for _, error in answers:
            if error is not None:
                raise error
        self.res = [ids for ids, _ in answers]

    def get_batch_results(self) -> Sequence[Ids]:
        """Return the last batch's ids, one sequence a query."""
        return self.res

    def get_additional(self) -> dict[str, Any]:
        """Return what else to store; build_time (s) and index_size (KiB) replace the measured ones."""
        return {}

    def get_memory_usage(self) -> float | None:
        """Memory in use now in KiB, None if unknown; the index size is the difference that `fit` makes."""
        return float(psutil.Process().memory_info().rss) / 1024

    def done(self) -> None:
        """Release what the algorithm holds; always called, also after an error."""

    def __str__(self) -> str:
        """Name the algorithm with its arguments as set now; stored as `name`."""
        return getattr(self, "name", type(self).__name__)
