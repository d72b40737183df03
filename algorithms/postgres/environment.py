"""How the user names a server: the environment variables that the PostgreSQL plug-ins read.

USER to START_SERVICE are ann-benchmarks' own, with its defaults; the others are additions.

    ANN_BENCHMARKS_PG_USER, _PASSWORD, _DBNAME   default "ann"
    ANN_BENCHMARKS_PG_HOST, _PORT                default: libpq's
    ANN_BENCHMARKS_PG_START_SERVICE              run `service postgresql start` first
    ANN_BENCHMARKS_PG_SERVER                     embedded | installed | external
    ANN_BENCHMARKS_PG_BIN                        folder with initdb and postgres, for "installed"
    ANN_BENCHMARKS_PG_DATA                       folder in which a server of our own keeps everything
    ANN_BENCHMARKS_PG_OS_USER                    account that runs the server when we are root
    ANN_BENCHMARKS_PG_SETTINGS                   "shared_buffers=2GB work_mem='64 MB'": wins over the profile
    ANN_BENCHMARKS_PG_GROUPS                     control groups for a server of our own (--tiers sets it), in
                                                 which "{server}" is nothing, or -1, -2 ... of a shard
                                                 or a replica
    ANN_BENCHMARKS_PG_RAM                        "64GB": what each server has for its buffers and the system's
                                                 cache (--tiers sets it); default: of ours, the machine's
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from .errors import PostgresError

PREFIX = "ANN_BENCHMARKS_PG_"
OTHER_FOLDER = f"another folder in {PREFIX}DATA (run.py in Docker: --storage)"
KINDS = ("embedded", "installed", "external")
_OF_AN_EXTERNAL_SERVER = ("USER", "PASSWORD", "DBNAME", "HOST", "PORT", "START_SERVICE")
_LONGEST, _LONGEST_NAME = 2_000, 255  # characters of a value, bytes of a file's name
_contender: Mapping[str, str] = {}
_YES = {"1", "t", "true", "y", "yes", "on"}


def variable(name: str, default: str = "") -> str:
    """Read ANN_BENCHMARKS_PG_<name>; unset and blank mean the default."""
    value = os.environ.get(PREFIX + name, "").strip()
    if len(value) > _LONGEST:
        raise PostgresError(f"{PREFIX}{name} has {len(value):,} characters: give at most {_LONGEST:,}")
    if not "".join(value.split()).isprintable():
        raise PostgresError(f"{PREFIX}{name} has characters that cannot be printed: set it anew, or unset it")
    return value or default


def folder_variable(name: str) -> Path | None:
    """Read ANN_BENCHMARKS_PG_<name> as a folder, None where it is not set."""
    text = variable(name)
    if not text:
        return None
    try:
        folder = Path(text).expanduser()
    except RuntimeError:
        raise PostgresError(f"{PREFIX}{name} is '{text}': this machine has no such home folder") from None
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in folder.parts):
        raise PostgresError(f"{PREFIX}{name}: a name in it has more than {_LONGEST_NAME} bytes")
    return folder


def server_kind() -> str:
    """Which kind of server is meant: the one named, else one that runs already, else the embedded one."""
    kind = variable("SERVER")
    if kind and kind not in KINDS:
        raise PostgresError(f"{PREFIX}SERVER is '{kind}': use one of {', '.join(KINDS)}")
    if kind:
        return kind
    if any(variable(name) for name in _OF_AN_EXTERNAL_SERVER):
        return "external"
    return "installed" if variable("BIN") else "embedded"


def starts_service() -> bool:
    """Whether the system's PostgreSQL service is to be started before an external server is used."""
    return variable("START_SERVICE").lower() in _YES


def connection_parameters() -> dict[str, str]:
    """Keyword arguments of libpq for the external server."""
    parameters = {
        "user": variable("USER", "ann"),
        "password": variable("PASSWORD", "ann"),
        "dbname": variable("DBNAME", "ann"),
    }
    optional = {"host": variable("HOST"), "port": variable("PORT")}
    return parameters | {name: value for name, value in optional.items() if value}


def use_settings(settings: Mapping[str, str]) -> None:
    """Give these over those of the environment, from now on: those of the contender that is at work."""
    global _contender
    _contender = {name.lower(): value for name, value in settings.items()}


def contender_settings() -> Mapping[str, str]:
    """Return the settings of the contender that is at work, as name to value."""
    return _contender


def given_settings() -> Mapping[str, str]:
    """Read the settings that the user gives, as name to value; those of the contender take precedence."""
    text = variable("SETTINGS")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PostgresError(f"{PREFIX}SETTINGS: {error}: write name=value name='a value'") from None
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise PostgresError(f"{PREFIX}SETTINGS: '{word}' is not of the form name=value")
        settings[name.strip().lower()] = value.strip()
    return {**settings, **_contender}


def ram_bytes() -> int | None:
    """Read RAM in bytes, None where it is not set."""
    text = variable("RAM")
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9}) ?(MB|GB|TB)", text)
    if not match or not int(match[1]):
        raise PostgresError(f"{PREFIX}RAM is '{text:.40}': give a size, such as 512MB or 64GB")
    return int(match[1]) << {"MB": 20, "GB": 30, "TB": 40}[match[2]]
