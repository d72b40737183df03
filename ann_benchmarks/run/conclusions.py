"""What rounds have shown, in words for the terminal."""

from collections.abc import Iterator, Sequence

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.measurement import speed_of
from ann_benchmarks.statistics.contests import Ratio, contest
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.speeds import Speed


def conclusions(jobs: Sequence[Job], done: Sequence[PointDone]) -> Iterator[str]:
    """Say which contender is the fastest at the target recall, under each load; as reports say it.

    Contenders are algorithms or, where there is one, its definitions.
    """
    recalls = {event.path: event.recall for event in done}
    fields: dict[str, list[tuple[Definition, Speed]]] = {}
    for job in jobs:
        load = job.procedure.load
        if job.procedure.target_recall is None or (load is not None and load.is_open):
            continue  # what is at a rate has the throughput that was given
        for path in recalls:
            if job.is_result(path):
                attrs = read_attributes(path)
                rate = 1 / attrs["best_search_time"]
                speed = speed_of(attrs, recalls[path], rate, str(job.definition))
                fields.setdefault(str(job.procedure), []).append((job.definition, speed))
    target = jobs[0].procedure.target_recall
    for field, measured in fields.items():
        is_one = len({definition.family for definition, _ in measured}) == 1
        speeds: dict[str, list[Speed]] = {}
        for definition, speed in measured:
            speeds.setdefault(str(definition) if is_one else definition.family, []).append(speed)
        found = contest(speeds, target or 0.0)
        name = field.strip(" ,")
        where = f"{name}: " if name else ""
        for other, ratio in found.ratios(ERROR_RATE / len(fields)).items():
            yield f"{where}{comparison(next(iter(found.standings)), other, ratio)}"


def comparison(name: str, other: str, ratio: Ratio) -> str:
    """Write how many times as fast one is as another, and how sure that is."""
    if not ratio.is_fair:
        return f"{name} and {other} cannot be told apart, because {other} has only higher recalls"
    text = f"{name} is {three_digits(ratio.value)} times as fast as {other}{ratio.where}"
    if ratio.interval is None or not ratio.rounds:
        return f"{text} (from too few rounds to say how sure that is)"
    interval = " to ".join(map(three_digits, ratio.interval))
    if ratio.is_noise:  # the first is the first by noise, by which its factor is too large
        alike = f"{name} and {other} show no difference beyond noise{ratio.where}"
        return f"{alike} (95% interval of the factor {interval})"
    through = f", through {ratio.through}" if ratio.through else ""
    return f"{text} (95% interval {interval}{through})"
