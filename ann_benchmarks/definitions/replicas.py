"""Copies of a server that answer its queries: how many there are."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Replicas:
    """Servers that follow a primary, and that clients query; 0: they query the primary.

    `most` is the largest number of those that are compared: of all of them, a server has the same memory, and
    the primary the same settings.
    """

    count: int
    most: int = field(default=0, compare=False)

    def __str__(self) -> str:
        """Write them as the names of curves have them, such as replicas2."""
        return f"replicas{self.count}" if self.count else ""
