"""What became of each image, and the table at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BUILT, UNCHANGED, FAILED = "built", "unchanged", "failed"
_NUMBERS = 3  # columns of the table, from the third on


@dataclass(frozen=True)
class Outcome:
    """An image that was to be built: sizes in bytes, None where there is none."""

    image: str
    state: str
    seconds: float = 0.0
    size: int | None = None
    own_size: int | None = None  # beyond what it starts from
    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    def __str__(self) -> str:
        text = f"{self.state} in {self.seconds:.1f} s, {_megabytes(self.size)} MB"
        return f"{text}, {_versions(self)}" if self.versions else text


def image_id(client: Any, image: str) -> str | None:
    """The image that has this name now."""
    found = _find(client, image)
    return None if found is None else found.id


def sizes(client: Any, image: str, base: str) -> tuple[int | None, int | None]:
    """Bytes of an image, and of what it has beyond the one that it starts from, where that is still there."""
    found = _find(client, image)
    if found is None:
        return None, None
    size = found.attrs["Size"]
    below = None if base == "scratch" else _find(client, base)
    if below is None:
        return size, None if base != "scratch" else size
    layers, shared = found.attrs["RootFS"].get("Layers", []), below.attrs["RootFS"].get("Layers", [])
    return size, size - below.attrs["Size"] if layers[: len(shared)] == shared else None


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Lines of a table; MB of an image's own are those beyond the image that it starts from."""
    rows = [("image", "state", "MB", "own MB", "seconds", "versions")]
    for each in outcomes:
        rows.append(
            (
                each.image,
                each.state,
                _megabytes(each.size),
                _megabytes(each.own_size),
                f"{each.seconds:.1f}",
                _versions(each) or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= number < 2 + _NUMBERS else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _find(client: Any, image: str) -> Any:
    from docker.errors import NotFound

    try:
        return client.images.get(image)
    except NotFound:
        return None


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / 1e6:,.0f}"


def _versions(outcome: Outcome) -> str:
    return ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
