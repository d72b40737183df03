"""Figures that others have published, from reference/NAME.yml (reference/README.md has the format)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import UserError, told
from .points import Point
from .ram import GB, Line, normalised

FOLDER = Path(__file__).parents[2] / "reference"


@dataclass(frozen=True)
class Published:
    """Lines of another machine, as shares (ram.normalised), and how they are marked."""

    label: str
    lines: Sequence[Line]


def published_names() -> list[str]:
    """Return what there is."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def read_published(name: str) -> Published:
    """Read one file; UserError if it is missing or has another format."""
    try:
        content = read_yaml(name)
        lines = [
            published_line(engine, clients)
            for engine in content["engines"]
            for clients in sorted({row[2] for row in engine["rows"]})
        ]
        return Published(str(content["label"]), lines)
    except FileNotFoundError:
        known = ", ".join(published_names()) or "none"
        raise UserError(f"there are no published figures named '{name}': there are {known}") from None
    except (OSError, ValueError, TypeError, LookupError, yaml.YAMLError) as error:
        raise UserError(f"{FOLDER / name}.yml is not as reference/README.md says: {told(error)}") from error


def read_yaml(name: str) -> Any:
    """Return what a file says."""
    return yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))


def published_line(engine: dict, clients: int) -> Line:
    """Return an engine's line for one number of clients."""
    rows = sorted(row for row in engine["rows"] if row[2] == clients)
    text = f"{clients} client{'s' * (clients > 1)}"
    panels = {
        "qps": [Point(ram * GB, qps) for ram, _, _, qps, _, _ in rows],
        "p99": [Point(ram * GB, p99) for ram, _, _, _, _, p99 in rows],
    }
    name = str(engine["name"])
    return normalised(Line(f"{name}, {text}", name, text, clients, engine["index_gb"] * GB, panels))
