"""What run.py prints of a point."""

from dataclasses import replace
from pathlib import Path

from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.run.console import point_text

POINT = PointDone(
    "hnsw(20)", Path("x"), 0.95, Interval(0.94, 0.96), 5, 1234.5, Interval(1100, 1369), None, 2e-3, 9e-3, 1.5
)


def test_throughput_and_its_interval_are_those_of_the_mean_of_the_runs():
    assert point_text(POINT) == (
        "hnsw(20): recall 0.9500 (0.9400 to 0.9600), mean of 5 runs 1,234.5 QPS (1,100.0 to 1,369.0),"
        " p50 2.000 ms, p99 9.000 ms"
    )
    torn = replace(POINT, slowest_run=800.0, main_wait="IO: DataFileRead 80% of the time")
    assert "(1,100.0 to 1,369.0) (slowest run: 800.0), p50" in point_text(torn)
    assert point_text(torn).endswith(", waiting for IO: DataFileRead 80% of the time")


def test_of_a_single_run_and_of_few_queries_it_claims_no_more_than_they_show():
    few = replace(POINT, runs=1, qps_interval=None, p99=None)
    assert ", 1,234.5 QPS, p50 2.000 ms, p99 takes 1,000 queries" in point_text(few)
