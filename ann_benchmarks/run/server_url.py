"""--url postgresql://...: one text that names a server, as the variables that plug-ins read.

Its password goes into the environment alone: results, logs and messages have the command line without it.
"""

import os
import sys
from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from ann_benchmarks.common.errors import UserError, closest

LOCAL = "--local"
_OPTIONS = ("--url", "--ur")  # argparse would take both
_SCHEMES = ("postgresql", "postgres")
_FORM = "--url must be of the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
_PREFIX = "ANN_BENCHMARKS_PG_"
_OF_LIBPQ = ("sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "options")
_VARIABLES = {name: f"{_PREFIX}{name.upper()}" for name in ("user", "password", "host", "port", "dbname")}
_VARIABLES |= {name: f"PG{name.upper().replace('_', '')}" for name in _OF_LIBPQ}


def take_url(words: Sequence[str], *given: str) -> list[str]:
    """Return a command line without its URL, and set the variables that the URL stands for.

    `given` are words that the command adds. UserError where no server can be meant.
    """
    kept, url = _split(words)
    if url is None:
        return kept
    sys.argv[1:] = _split(sys.argv[1:])[0]  # it is stored with results
    if LOCAL not in (*kept, *given):
        raise UserError("--url is for servers outside of containers: add --local")
    os.environ.update(variables_of(url))
    return kept


def variables_of(url: str) -> dict[str, str]:
    """Return the variables that a URL stands for; nothing of it is quoted in an error but names."""
    try:
        parts = urlsplit(url)
        found = {"user": parts.username, "password": parts.password, "host": parts.hostname}
        found |= {"port": str(parts.port or ""), "dbname": parts.path.removeprefix("/")}
        more = parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise UserError(_FORM) from None
    if parts.scheme not in _SCHEMES or "/" in (found["dbname"] or "") or parts.fragment:
        raise UserError(_FORM)
    values = {name: unquote(value) for name, value in found.items() if value} | dict(more)
    values.setdefault("password", os.environ.get("PGPASSWORD", ""))
    values.setdefault("host", "localhost")
    if unknown := [name for name in values if name not in _VARIABLES]:
        raise UserError(f"--url has the unknown parameter '{unknown[0]}'; {closest(unknown[0], _VARIABLES)}")
    return {_VARIABLES[name]: value for name, value in values.items() if value}


def _split(words: Sequence[str]) -> tuple[list[str], str | None]:
    kept: list[str] = []
    url, left = None, iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            url = value if equals else next(left, "")
        else:
            kept.append(word)
    return kept, url
