"""An interrupted race as it lies on the disk, with which the same command goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.rounds import Contender
from ann_benchmarks.measure.turns_taken import TurnsTaken


@dataclass(frozen=True)
class Interrupted:
    """The turns of every contender in the rounds of a mark."""

    mark: str
    taken: Mapping[Contender, TurnsTaken]

    @property
    def logs(self) -> dict[Contender, dict[int, float]]:
        """The seconds per query in each round."""
        return {
            contender: {
                number: run.seconds_per_query for number, run in zip(one.rounds, one.runs, strict=True)
            }
            for contender, one in self.taken.items()
        }

    @property
    def seconds(self) -> float:
        """How long they took."""
        started = [run.started for one in self.taken.values() for run in one.runs]
        return max(started) - min(started)


def find_interrupted(jobs: Sequence[Job], contenders: Sequence[Contender]) -> Interrupted | None:
    """Return the interrupted rounds that all contenders were in, None without any."""
    by_label = {job.label(): job for job in jobs}
    mark = jobs[0].cut
    if not mark or any(job.cut != mark for job in jobs):
        return None
    paths: dict[Contender, Path] = {}
    for one in contenders:
        job = by_label[one.job]
        paths[one] = job.path(job.points[one.point])
    try:
        taken = {one: TurnsTaken.read(path, mark) for one, path in paths.items()}
    except UserError:
        return None
    return Interrupted(mark, taken)
