"""What was seen at one moment, and the samples of one phase: few are kept, however long it lasts."""

from dataclasses import dataclass, field

import numpy as np

MOST_SAMPLES = 240  # of a phase; with one more, every second one is dropped
CLOSE_SECONDS = 0.1  # a rate over less says little: the machine's own clocks tick 100 times a second


@dataclass(frozen=True)
class Sample:
    """One moment, in s from the start of the job.

    `totals` are counted since something began and become rates; `levels` are as they are. `cores` is
    (cores, 4): seconds busy, waiting for a disk, taken away by a hypervisor, and in all.
    """

    seconds: float
    totals: dict[str, float] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)
    cores: np.ndarray | None = None


class Stretch:
    """A phase from its begin to its end. Its first sample is the last one of the phase before it."""

    def __init__(self, phase: str, interval: float, first: Sample | None = None) -> None:
        """Begin it; samples come every `interval` s at first."""
        self.phase, self.interval = phase, interval
        self.samples = [] if first is None else [first]

    def add(self, sample: Sample) -> None:
        """Keep a sample; when they are too many, every second one, and fewer from then on."""
        self.samples.append(sample)
        if len(self.samples) > MOST_SAMPLES:
            del self.samples[1::2]  # the first and the last stay
            self.interval *= 2

    def end(self, sample: Sample) -> None:
        """Keep the last sample, in place of one that was taken just before."""
        if len(self.samples) > 1 and sample.seconds - self.samples[-1].seconds < CLOSE_SECONDS:
            self.samples.pop()
        self.add(sample)

    def thinned(self, most: int) -> "Stretch":
        """Return it with at most this many samples, from its first to its last."""
        fewer = Stretch(self.phase, self.interval)
        chosen = np.linspace(0, len(self.samples) - 1, min(most, len(self.samples)))
        fewer.samples = [self.samples[place] for place in np.unique(chosen.round().astype(int))]
        return fewer

    @property
    def seconds(self) -> float:
        """How long it is known to have lasted."""
        return self.samples[-1].seconds - self.samples[0].seconds if self.samples else 0.0
