"""Poolers between clients and a server: which there are, and how many connections they have."""

from dataclasses import dataclass

POOLERS = (
    "pgbouncer:session",  # a client has a server connection for itself
    "pgbouncer:transaction",  # clients share server connections, which have the settings from their start on
    "pgbouncer:transaction-local",  # the same, and each query sets its own settings by SET LOCAL
)


@dataclass(frozen=True)
class Pooler:
    """What queries go through, with its connections to the server; None: as many as the plug-in takes."""

    name: str  # one of POOLERS
    size: int | None = None

    @property
    def shares_connections(self) -> bool:
        """Whether clients share server connections, so that their number matters."""
        return not self.name.endswith(":session")

    def __str__(self) -> str:
        """Write it as the names of curves have it, such as pgbouncer-transaction-pool8."""
        return self.name.replace(":", "-") + ("" if self.size is None else f"-pool{self.size}")
