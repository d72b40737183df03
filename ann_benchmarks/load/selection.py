"""What the search for a recall owes to the very queries that it searched with."""

from collections.abc import Sequence

import numpy as np

RESAMPLED = 400  # times
_LEAST = 1e-4  # of a recall, from 0 and from 1


def overstatement(target: float, places: Sequence[int], recalls: np.ndarray) -> float | None:
    """Return by how much a recall that a search has reached exceeds that of other queries, on average.

    `places` are those that were tried, ascending; `recalls` are of each query, (places, queries). The search
    is repeated on queries drawn with replacement from these, which are to these what these are to all that
    there could be (Efron's bootstrap, 1983): where it reaches the target on the drawn ones, the mean recall
    of these lies below it. Between two places the logit of the recall is linear in the logarithm of the
    place. None where the places do not enclose the target.
    """
    means = recalls.mean(axis=1)
    if len(places) < 2 or not np.min(means) < target <= np.max(means):
        return None
    queries = recalls.shape[1]
    counts = np.random.default_rng(queries).multinomial(queries, np.full(queries, 1 / queries), RESAMPLED)
    efforts, aim = np.log1p(np.asarray(places, dtype=float)), float(_logit(np.array(target)))
    of_all = _logit(means)
    found = [
        np.interp(np.interp(aim, np.maximum.accumulate(curve), efforts), efforts, of_all)
        for curve in _logit(counts @ recalls.T / queries)
    ]
    return target - float(np.mean(1 / (1 + np.exp(-np.array(found)))))


def _logit(recalls: np.ndarray) -> np.ndarray:
    inside = np.clip(recalls, _LEAST, 1 - _LEAST)
    return np.log(inside / (1 - inside))
