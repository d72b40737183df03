"""Errors that the user can mend, each on one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


class PostgresError(RuntimeError):
    """One line: what is wrong with the server, the index or the data, and what to do."""


class NotInstalledError(PostgresError):
    """What can be installed is not, or not for this user: it is left out unless the user names it."""

    is_unavailable = True


class FolderInUseError(PostgresError):
    """Another process has the folder of our server: no definition can run."""

    ends_run = True


def lacks_resources(error: psycopg.Error) -> bool:
    """Whether the server has too little of something, such as disk, memory or room for locks."""
    return (error.sqlstate or "").startswith("53")  # the class of SQLSTATE


def message_of(error: psycopg.Error) -> str:
    """Put the server's message on one line: an extension's may have several, and a stack trace.

    Where the server lacks something, its hint says which setting gives it more.
    """
    hint = f" ({error.diag.message_hint})" if lacks_resources(error) and error.diag.message_hint else ""
    return " ".join((error.diag.message_primary or str(error)).split()) + hint


def refusal(doing: str, error: psycopg.Error) -> PostgresError:
    """Say on one line what the server refuses, and why."""
    return PostgresError(f"{doing}: {message_of(error)}")


@contextmanager
def naming(server: str) -> Iterator[None]:
    """Have errors begin with the one of several servers that they are of."""
    try:
        yield
    except FolderInUseError:
        raise  # it names the folder, and ends the run
    except PostgresError as error:
        raise type(error)(f"{server}: {error}") from None
    except psycopg.OperationalError as error:
        raise PostgresError(f"{server}: {' '.join(str(error).split())}") from None
