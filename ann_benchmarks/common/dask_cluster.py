"""A Dask cluster that somebody started: reached, or refused in one line."""

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from .errors import UserError

PATIENCE = 30  # seconds to reach the scheduler, and for its first worker


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """Give a client of the scheduler at this address, which has a worker; UserError where there is none."""
    knock(scheduler)
    import dask
    from distributed import Client

    # What matters arrives as an error of a task; the rest, such as versions that differ, is noise here.
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
    with warnings.catch_warnings(), dask.config.set(quiet):
        warnings.simplefilter("ignore")
        try:
            client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise _unreachable(scheduler, error) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise UserError(
                    f"the Dask scheduler {scheduler} has no workers; start some with: dask worker {scheduler}"
                ) from None
            yield client


def task_error(scheduler: str, what: str, error: Exception, advice: str = "") -> UserError:
    """Say on one line why a task failed there, and what to do; `what` is what did not work."""
    lacking = _lacking(error)
    if lacking:
        return UserError(
            f"the cluster {scheduler} lacks a module ({lacking}); start its scheduler and "
            "workers with this folder in PYTHONPATH and with the same packages installed"
        )
    problem = f"{what} on the cluster {scheduler}: {type(error).__name__}: {first_line(error)}"
    return UserError(f"{problem}; {advice}" if advice else problem)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error) or type(error).__name__).splitlines()[0]


def knock(scheduler: str) -> None:
    """Raise UserError where nobody listens, or Dask is not installed: a client would try for long."""
    if find_spec("distributed") is None:
        raise UserError("a cluster needs a package that is not installed; run: pip install distributed")
    place = urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")
    try:
        if not place.hostname or not place.port:
            raise ValueError("no host and port")
        socket.create_connection((place.hostname, place.port), timeout=PATIENCE).close()
    except (OSError, ValueError) as error:
        raise _unreachable(scheduler, error) from None


def _unreachable(scheduler: str, error: Exception) -> UserError:
    return UserError(
        f"the Dask scheduler {scheduler} cannot be reached ({first_line(error)}); "
        "expected is the address that `dask scheduler` prints, such as tcp://host:8786"
    )


def _lacking(error: BaseException | None) -> str:
    """Say which module could not be imported, where that is the cause."""
    while error and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return first_line(error) if error else ""
