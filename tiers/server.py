"""What tiers need of a database's server: the one interface to whatever is measured on them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition, plugin_class

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


def server_of(definitions: Iterable[Definition], restart_command: str | None) -> TieredServer:
    """Return the server behind these definitions; UserError where the plug-in of none runs any."""
    problem = UserError("no algorithm is requested whose server tiers could simulate: leave --tiers out")
    for definition in {(each.module, each.constructor): each for each in definitions}.values():
        try:
            server: TieredServer = plugin_class(definition).simulated_server(restart_command)
            return server
        except RuntimeError as error:
            raise UserError(str(error)) from None
        except UserError as error:
            problem = error
        except ImportError as error:
            problem = UserError(f"'{definition.algorithm}' cannot be imported, which tiers need: {error}")
    raise problem


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Turn the errors of plug-ins, which know no UserError, into that."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(str(error)) from None
