"""Secrets, such as the token of an account: read where nobody else sees them, kept out of what is said."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from ann_benchmarks.common.errors import UserError


def read_secrets(texts: Iterable[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read NAME, for the environment's value, or NAME=FILE, for what the file holds: one word.

    No message repeats what it was given, which may be the secret itself.
    """
    secrets = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UserError("--secret takes a NAME, whose value is in the environment, or NAME=FILE")
        value = (_content(name, place) if equals else environment.get(name, "")).strip()
        if not re.fullmatch(r"[!-~]+", value):
            where = "the file that it names" if equals else f"the variable {name}"
            what = "more than one word" if value else "nothing"
            raise UserError(f"--secret {name}: {where} holds {what}")
        secrets[name] = value
    return secrets


def _content(name: str, place: str) -> str:
    try:
        return Path(place).expanduser().read_text(encoding="ascii", errors="replace")
    except (OSError, ValueError, RuntimeError):
        raise UserError(
            f"--secret {name}: there is no file of the name after '='; a secret itself has no place on a"
            f" command line, where others see it: put it into the variable {name} and write --secret {name}"
        ) from None


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Put *** in place of each secret, also as it is written in addresses."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in (secret, quote(secret, safe="")):
            text = text.replace(form, "***")
    return text
