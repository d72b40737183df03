"""What tiers need of a database's server: the one interface to whatever is measured on them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.common.errors import UserError

from .tier import Tier


class TieredServer(Protocol):
    """A server that is given what a tier has.

    Methods raise RuntimeError, whose text is one line for the user, where that cannot be.
    """

    @property
    def is_ours(self) -> bool:
        """Whether workers start it; else it is the user's, and serve() restarts it."""

    def check(self, tiers: Sequence[Tier]) -> str | None:
        """Refuse tiers that the server cannot be given, before anything is changed; return advice, if any."""

    def data_folder(self) -> Path | None:
        """Return the folder of its data, None where it is on another machine, or not ours to know."""

    def environment(self, tier: Tier | None, groups: Sequence[Path] = ()) -> Mapping[str, str]:
        """Return the variables of a worker, or a container, whose server is to have what a tier has.

        None: a server that builds, with all the machine's memory. `groups` are the files that take
        the pids of its processes.
        """

    def serve(self, tier: Tier) -> int | None:
        """Restart the user's server as the tier says; return its pid, None if it is on another machine."""

    def give_back(self) -> None:
        """Give the user's server its own settings back."""


def server_of(plugin: Any, restart_command: str | None) -> TieredServer:
    """Return the server of a plug-in's class; UserError where it has none that tiers could simulate."""
    make = getattr(plugin, "simulated_server", None)
    if make is None:
        raise UserError(f"tiers are of database servers, and {plugin.__name__} has none: leave --tiers out")
    with plugin_errors():
        server: TieredServer = make(restart_command)
    return server


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Turn the errors of plug-ins, which know no UserError, into that."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(str(error)) from None


def default_plugin() -> Any:
    """Return the plug-in whose server is meant where run.py does not pass one."""
    from ann_benchmarks.algorithms.postgres.module import PostgresANN

    return PostgresANN
