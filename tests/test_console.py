"""What run.py prints of a point."""

from dataclasses import replace
from pathlib import Path

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Note, PointDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import Rounds
from ann_benchmarks.results.remarks import remarks
from ann_benchmarks.run.console import MOST_POINTS, Console, JobOutcome, point_text, summary
from ann_benchmarks.run.containers.wire import MessageReader, write_message
from ann_benchmarks.run.race import RoundsProgress, time_left
from ann_benchmarks.statistics.intervals import Interval

DEFINITION = Definition("a", "A", "m", "t", [], [], False)
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


def test_what_is_to_be_known_of_many_points_is_one_line_with_the_figures_of_the_worst(capsys):
    console, job = Console(), Job(DEFINITION, [], "vectors", 10)
    for number, longer in enumerate((13, 40, 7)):
        name = f"a({number})"
        console.event(job, Note(f"p99 has no interval: give --duration {longer}", name))
        console.event(job, replace(POINT, label=name))
    console.event(job, Note("only 3 queries were counted", "a(0)"))
    assert capsys.readouterr().err == ""
    console.ended()
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "warning: 3 of 3 points: p99 has no interval: give --duration 40 (the figures of the worst)",
        "warning: a(0): only 3 queries were counted",
    ]
    assert said.out == "which points these are: report.json of report.py --dataset vectors\n"


def test_the_worst_is_not_always_the_largest(capsys):
    def said(*facts):
        console, job = Console(), Job(DEFINITION, [], "vectors", 10)
        for number, one in enumerate(facts):
            console.event(job, replace(POINT, label=f"a({number})"))
            for text in remarks(one):
                note = Note.about(f"a({number})", text)
                ((arrived, _),) = MessageReader().feed(write_message(note))  # as out of a container
                assert arrived == note
                console.event(job, arrived)
        console.ended()
        return capsys.readouterr().err

    assert "only 3 queries were counted" in said({"queries_counted": 40}, {"queries_counted": 3})
    waiting = ({"clients_were_limit": True, "loop": "closed", "clients_waiting_share": s} for s in (0.2, 0.7))
    assert "waited for answers only 20% of the time" in said(*waiting)
    others = ({"run_others_cpu": shares} for shares in ([0.9], [0.2, 0.3, 0.05]))
    assert "up to 90% of the machine's CPUs in 1 of 1 runs" in said(*others)
    recalls = ({"run_recalls": recalls} for recalls in ([0.5, 0.9], [0.97, 0.99]))
    assert "the recall was between 0.5 and 0.9" in said(*recalls)


def test_the_time_left_is_the_least_of_what_ends_a_race():
    assert time_left(Rounds(until=0.05), 3, 30.0, None) == ""
    assert time_left(Rounds(number=10), 4, 20.0, None) == ", 30 s left at most"
    assert time_left(Rounds(number=10, budget=900.0), 4, 200.0, 250.0) == ", 4:10 min left at most"
    assert time_left(Rounds(until=0.05, budget=60.0), 3, 60.0, -20.0) == ", 20 s left at most"  # of a fourth


def test_without_a_terminal_a_race_says_little(capsys, monkeypatch):
    moments = iter([0.0, 4.0, 8.0, 11.0, 15.0])
    monkeypatch.setattr("ann_benchmarks.run.race.time.monotonic", lambda: next(moments))
    with RoundsProgress(Rounds(number=10), None, True) as progress:
        for number, running in enumerate((5, 5, 3, 3), 1):
            progress.turn(number, running)
            progress.end_round(number, running)
    assert capsys.readouterr() == (
        "round 1, 5 contenders, 36 s left at most\nround 4, 3 contenders, 22 s left at most\n",
        "",
    )


def test_the_points_of_a_few_jobs_are_in_a_table_with_recall_and_throughput():
    points = [
        replace(POINT, label=f"hnsw({ef})", path=Path(f"{ef}"), recall=recall, queries_per_second=rate)
        for ef, recall, rate in ((10, 0.8, 2000.0), (100, 0.99, 310.25))
    ]
    points[1] = replace(points[1], qps_interval=None, p99=None)
    job = Job(DEFINITION, [[10], [100]], "vectors", 10)
    lines = summary([JobOutcome(job, done=2, points=[*points, points[0]])])
    assert [line.split() for line in lines[:3]] == [
        ["point", "recall", "QPS", "95%", "interval", "p99", "ms"],
        ["hnsw(10)", "0.8000", "2,000.0", "1,100.0", "to", "1,369.0", "9.000"],
        ["hnsw(100)", "0.9900", "310.2", "-", "-"],
    ]
    assert len(lines) == 3 + 2 and len(summary([JobOutcome(job, points=points[:1])])) == 2
    assert summary([]) == []  # everything was finished before
    many = [replace(POINT, path=Path(f"{number}")) for number in range(MOST_POINTS + 1)]
    lines = summary([JobOutcome(job, points=many)])
    assert lines[0] == "all 41 points in a table: python report.py --dataset vectors" and len(lines) == 1 + 2
