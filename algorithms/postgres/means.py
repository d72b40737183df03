"""What is counted in the answers that are read, such as the bytes of their payload: means, by name."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class AnswerMeans:
    """Of each name, the sum of its values and their number."""

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, name: str, value: float, answers: int = 1) -> None:
        """Count the value of an answer, or the sum of several."""
        before, number = self.sums.get(name, (0, 0))
        self.sums[name] = before + value, number + answers

    def taken(self) -> "AnswerMeans":
        """Return what was counted, and begin anew."""
        found = AnswerMeans(self.sums)
        self.sums = {}
        return found

    def facts(self) -> dict[str, float]:
        """Return what is stored: the means."""
        return {name: value / number for name, (value, number) in self.sums.items()}


def together(counts: Iterable[AnswerMeans]) -> AnswerMeans:
    """Return what was counted by several."""
    found = AnswerMeans()
    for count in counts:
        for name, (value, number) in count.sums.items():
            found.add(name, value, number)
    return found
