"""Times, answers and figures of a point that somebody has changed."""

import numpy as np

from .bundle_data import set_attributes
from .tampering import Tampering, arrays, attrs, first, scaled, with_one

POINTS = (
    Tampering("latencies halved", "timings", "says clients_waiting_share",
              arrays(times=lambda times: times / 2)),
    Tampering("a latency far out", "figures", "its histogram of all runs", arrays(times=with_one(3, 90.0))),
    Tampering("a latency below 0", "readable", "must be seconds", arrays(times=with_one(3, -0.001))),
    Tampering("a latency of NaN", "readable", "must be seconds", arrays(times=with_one(3, np.nan))),
    Tampering("latencies all equal", "timings", "all the same",
              arrays(times=lambda t: np.full_like(t, t.mean()))),
    Tampering("fewer latencies", "timings", "says queries_counted",
              arrays(times=lambda times: times[: len(times) // 2])),
    Tampering("an answer", "answers", "other distances than the truth",
              arrays(neighbors=lambda rows: rows[:, ::-1])),
    Tampering("an answer from nowhere", "answers", "has not", arrays(neighbors=with_one((0, 0), 10**6))),
    Tampering("an answer twice", "answers", "row twice",
              arrays(neighbors=lambda rows: np.hstack([rows[:, :1], rows[:, :9]]))),
    Tampering("a distance", "answers", "nearer than the true", arrays(distances=lambda found: found * 0.9)),
    Tampering("a distance of NaN", "answers", "without a distance",
              lambda folder: arrays(distances=with_one((0, 3), np.nan))(folder)),
    Tampering("QPS", "figures", "says qps_mean", scaled("qps_mean", 1.5)),
    Tampering("QPS and seconds", "timings", "says best_search_time",
              lambda folder: [scaled(name, by)(folder)
                for name, by in (("run_seconds", 0.5), ("best_search_time", 0.5), ("qps_mean", 2))]),
    Tampering("active time", "timings", "says active_seconds", scaled("active_seconds", 0.5)),
    Tampering("an attribute in one place", "attributes", "'qps_mean' twice",
              lambda folder: set_attributes(first(folder), in_text=False, qps_mean=1e6)),
    Tampering("recall", "figures", "says recall_low", attrs(recall_low=0.9, recall_high=0.99)),
    Tampering("recall of runs", "figures", "run_recalls", attrs(run_recalls=[0.99, 0.99, 0.99])),
    Tampering("p99", "figures", "says latency_p99", scaled("latency_p99", 0.3)),
    Tampering("histogram", "figures", "says latency_queries",
              arrays(latency_histogram=lambda counts: counts + 1)),
    Tampering("build time", "figures", "says build_time",
              attrs(build_time=0.001, load_time=4.0, index_build_time=9.0)),
)  # fmt: skip
