"""The queue that real clients load, by which open loops are compared with theory."""

import numpy as np
import pytest

from ann_benchmarks.measure.loaded_point import LoadedPoint
from benchmarks.known_queue import Loaded


def test_no_query_is_answered_before_one_server_could(monkeypatch: pytest.MonkeyPatch):
    """Latencies are those that are computed for the same arrivals, and what the machine adds."""
    monkeypatch.setattr(LoadedPoint, "_closed_loop_rate", lambda *_: 250.0)  # on a busy machine it is less
    queue = Loaded(service=0.004, share=0.7, clients=4)
    assert queue.services.mean() == pytest.approx(0.004)
    assert np.percentile(queue.services, 99) == pytest.approx(0.004 * np.log(100), rel=0.01)
    ((run, computed),) = queue.measure([3], seconds=1.0)
    assert run.facts["lead_in_seconds"] > 0
    assert abs(len(run.times) - len(computed)) <= 1
    # Queries that come at nearly the same time may change places, but no work is done twice as fast.
    assert run.times.mean() > 0.9 * computed.mean()
