"""A Dask cluster that somebody started: reached, or refused in one line."""

import logging
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from .errors import UserError
from .text import warn

PATIENCE = 30  # seconds to reach the scheduler, and for its first worker
_ENCRYPTED = ("tls", "wss")
_PAGE = "docs/datasets.md#on-a-dask-cluster"


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """Give a client of the scheduler at this address, with a worker at least; UserError without any."""
    _knock(scheduler)
    import dask
    from distributed import Client

    _check_security(scheduler)

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


def task_error(scheduler: str, what: str, error: Exception, advice: str) -> UserError:
    """Say on one line why a task failed there, and what to do; `what` is what did not work."""
    reason = f"{type(error).__name__}: {first_line(error)}"
    if isinstance(error, ModuleNotFoundError):
        advice = "start scheduler and workers with this folder in PYTHONPATH, and the same packages"
    return UserError(f"{what} on the cluster {scheduler}: {reason}; {advice}")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error) or type(error).__name__).splitlines()[0]


def check_scheduler(scheduler: str) -> None:
    """Raise UserError where nobody listens, and warn of a port through which others can run programs."""
    address = _knock(scheduler)
    if _place(scheduler).scheme not in _ENCRYPTED and not ip_address(address).is_loopback:
        warn(
            f"the Dask scheduler has no TLS, and whoever reaches it at {address} can run programs there: "
            f"use TLS ({_PAGE}), or listen on one machine only (dask scheduler --host 127.0.0.1)"
        )


def _knock(scheduler: str) -> str:
    """Return the address that answers. UserError where nobody does, or Dask is not installed."""
    if find_spec("distributed") is None:
        raise UserError("a cluster needs a package that is not installed; run: pip install distributed")
    try:
        place = _place(scheduler)
        if not place.hostname or not place.port:
            raise ValueError("no host and port")
        with socket.create_connection((place.hostname, place.port), timeout=PATIENCE) as connection:
            return str(connection.getpeername()[0]).partition("%")[0]
    except (OSError, ValueError) as error:
        raise _unreachable(scheduler, error) from None


def _place(scheduler: str) -> SplitResult:
    return urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")


def _check_security(scheduler: str) -> None:
    """Raise UserError where Dask's configuration does not fit the address: a client would hang at its end."""
    from distributed.security import Security

    is_encrypted = _place(scheduler).scheme in _ENCRYPTED
    try:
        security = Security().get_connection_args("client")
    except (OSError, ValueError) as error:  # also of certificates
        raise UserError(
            f"the certificates for {scheduler} cannot be read ({first_line(error)}): see {_PAGE}"
        ) from None
    if is_encrypted and security["ssl_context"] is None:
        raise UserError(f"{scheduler} needs certificates: name Dask's configuration in DASK_CONFIG ({_PAGE})")
    if security["require_encryption"] and not is_encrypted:
        raise UserError(
            f"Dask's configuration requires TLS, and {scheduler} is without: give tls://HOST:PORT"
        )


def _unreachable(scheduler: str, error: Exception) -> UserError:
    return UserError(
        f"the Dask scheduler {scheduler} cannot be reached ({first_line(error)}); "
        "expected is the address that `dask scheduler` prints, such as tls://host:8786"
    )
