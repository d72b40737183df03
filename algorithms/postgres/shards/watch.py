"""All servers of a sharded table observed while clients send queries."""

from collections.abc import Sequence

from ..watching import ServerWatch, SeveralWatch
from ..watching.several import AnyWatch


class ShardsWatch(SeveralWatch):
    """Observes the coordinator, where there is one, and all shards."""

    def __init__(self, coordinator: ServerWatch | None, shards: Sequence[AnyWatch]) -> None:
        """Take what observes each of them."""
        super().__init__(shards, coordinator, "coordinator", is_asked=True)
