"""Names of images and algorithms with a tag: NAME:TAG."""

import re

from ann_benchmarks.common.errors import UserError


def split_tag(name: str) -> tuple[str, str | None]:
    """Split NAME:TAG; None without a tag. UserError when it could not be one of an image."""
    base, colon, tag = name.partition(":")
    if not colon:
        return base, None
    if not re.fullmatch(r"\w[\w.-]{0,127}", tag, re.ASCII):
        raise UserError(
            f"'{tag}' is no tag of an image: use letters, digits, '.', '_' and '-', as in {base}:0.8.0"
        )
    return base, tag


def tagged(docker_tag: str, tag: str | None) -> str:
    """Give an image's name a tag in place of its own."""
    return docker_tag if tag is None else f"{docker_tag.partition(':')[0]}:{tag}"
