"""What one run of the queries has measured."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Measured:
    """One run over all queries: `times` (n,) in s, `neighbors` (n, at least count), -1 for none."""

    times: np.ndarray
    neighbors: np.ndarray
    seconds_per_query: float
    facts: dict[str, Any] = field(default_factory=dict)  # what else is stored of it
