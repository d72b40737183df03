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

import psutil

from .errors import UserError
from .text import warn

PATIENCE = 30  # seconds to reach the scheduler, and for its first worker
_PROBE_SECONDS = 1
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


def check_scheduler(scheduler: str) -> None:
    """Raise UserError where nobody listens, and warn of a port through which others can run programs."""
    _knock(scheduler)
    place = _place(scheduler)
    if place.scheme not in _ENCRYPTED and (seen := _beyond_loopback(place)):
        warn(
            f"the Dask scheduler has no TLS, and whoever reaches it at {seen} can run programs there: "
            f"use TLS ({_PAGE}), or listen on one machine only (dask scheduler --host 127.0.0.1)"
        )


def _knock(scheduler: str) -> None:
    """Raise UserError where nobody listens, or Dask is not installed: a client would try for long."""
    if find_spec("distributed") is None:
        raise UserError("a cluster needs a package that is not installed; run: pip install distributed")
    try:
        place = _place(scheduler)
        if not place.hostname or not place.port:
            raise ValueError("no host and port")
        socket.create_connection((place.hostname, place.port), timeout=PATIENCE).close()
    except (OSError, ValueError) as error:
        raise _unreachable(scheduler, error) from None


def _place(scheduler: str) -> SplitResult:
    return urlsplit(scheduler if "://" in scheduler else f"tcp://{scheduler}")


def _beyond_loopback(place: SplitResult) -> str | None:
    """Return an address beyond the loopback interface at which the scheduler listens; None without any."""
    assert place.hostname and place.port
    for host in (place.hostname, *_own_addresses()):
        try:
            with socket.create_connection((host, place.port), timeout=_PROBE_SECONDS) as connection:
                address = str(connection.getpeername()[0])
        except (OSError, UnicodeError):
            continue
        if host != place.hostname or not _is_loopback(address):
            return f"{address}, port {place.port}"
    return None


def _own_addresses() -> list[str]:
    """This machine's addresses that others may reach."""
    families = (socket.AF_INET, socket.AF_INET6)
    found = [one.address for each in psutil.net_if_addrs().values() for one in each if one.family in families]
    return [address for address in found if "%" not in address and not _is_loopback(address)]


def _is_loopback(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback


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


def _lacking(error: BaseException | None) -> str:
    """Say which module could not be imported, where that is the cause."""
    while error and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return first_line(error) if error else ""
