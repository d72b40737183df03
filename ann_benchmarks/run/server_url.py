"""--url postgresql://...: one text that names a server, as the variables that plug-ins read.

Its password goes into the environment alone: results, logs and messages have the command line without it.
"""

import os
import re
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
# A password in the URL of a table: between the user and the last @, or a parameter.
_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):.*@|(\bpassword=)(?:'[^']*'|[^&\s]*)")


def take_url(words: Sequence[str], *given: str) -> list[str]:
    """Return a command line without its URL, and set the variables that the URL stands for.

    `given` are words that the command adds. UserError where no server can be meant.
    """
    kept, url = _split(words)
    sys.argv[1:] = map(hide_password, _split(sys.argv[1:])[0])  # they are stored with results
    if url is None:
        return kept
    if LOCAL not in (*kept, *given):
        raise UserError("--url is for servers outside of containers: add --local")
    os.environ.update(variables_of(url))
    return kept


def hide_password(word: str) -> str:
    """Return a word of a command line without the password of a server, where it has one."""
    is_of_server = any(f"{scheme}://" in word for scheme in _SCHEMES) or "password=" in word
    return _PASSWORD.sub(_hide, word) if is_of_server else word


def _hide(found: "re.Match[str]") -> str:
    return found[2] or f"{found[1]}@"


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
