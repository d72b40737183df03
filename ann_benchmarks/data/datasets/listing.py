"""A table of the datasets that can be named."""

from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.foreign import clean_text

from . import generated, generated_sparse
from .catalog import (
    dataset_names,
    dataset_path,
    described,
    entry_of,
    get_dataset,
    is_present,
    present_names,
)
from .dataset import DATA_FOLDER
from .filter_files import stored_filters
from .parts import Parts
from .registry import Entry, SingleFile, aliases, registered

_HEAD = ("name", "rows", "dimensions", "metric", "size", "on disk", "present")


def dataset_table() -> str:
    """One line a dataset: name, rows, dimension, metric, bytes in all and here; '-' is not known yet."""
    rows = [_HEAD, *(_line(name) for name in dataset_names())]
    rows += [(pattern, "any", "any", "any", "", "", "") for pattern in generated.PATTERNS]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    line = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<>><>>", widths, strict=True)) + "  {}"
    others = [f"{alias} = {name}" for alias, name in sorted(aliases().items())]
    table = [line.format(*row).rstrip() for row in rows]
    table += ["", "other names: " + ", ".join(others)]
    published: dict[str, list[str]] = {}
    for name, entry in registered().items():
        if isinstance(entry, Parts) and entry.filters:
            published.setdefault(", ".join(source.names for source in entry.filters), []).append(name)
    table += [f"published filters of {', '.join(names)}: {sets}" for sets, names in published.items()]
    for name in present_names():
        if filters := stored_filters(name, DATA_FOLDER):
            table.append(f"filters of {name}: {', '.join(filters)}")
    return "\n".join(map(clean_text, table))


def _line(name: str) -> tuple[str, ...]:
    paths = [dataset_path(name)]
    entry, is_there = None, False
    try:
        entry = described(name)
        if (found := entry_of(name)) is not None:
            paths = found.files()
        is_there = is_present(name)
        if is_there:
            with get_dataset(name)[0] as dataset:
                shape = f"{dataset.rows:,}", f"{dataset.attrs['dimension']:,}", dataset.attrs["distance"]
                complete = "yes" if dataset.has_truth() else "yes, without true neighbours"
        else:
            shape, complete = _expected(entry), ""
    except UserError:
        shape, complete = ("damaged", "-", "-"), "yes"
    here = sum(_bytes_of(path) for path in paths)
    if here and not is_there:
        complete = "partly"
    return name, *shape, _size(entry), _in_units(here) if here else "", complete


def _expected(entry: Entry | None) -> tuple[str, str, str]:
    if entry is None:
        return "-", "-", "-"
    known = [f"{number:,}" if number is not None else "-" for number in (entry.rows, entry.dimension)]
    return known[0], known[1], entry.distance


def _size(entry: Entry | None) -> str:
    """Bytes of the vectors: what a format with fixed sizes takes, else about what float32 takes."""
    if isinstance(entry, SingleFile) and (entry.sparse or entry.name.startswith("sparse-")) and entry.rows:
        return f"~{_in_units(entry.rows * generated_sparse.VALUES * 8)}"
    if entry is None or entry.rows is None or entry.dimension is None or entry.distance == "jaccard":
        return "-"
    published = entry.size_of(entry.train[0]) if isinstance(entry, Parts) else None
    if published is None:
        return f"~{_in_units(entry.rows * entry.dimension * (1 if entry.distance == 'hamming' else 4))}"
    return _in_units(published * entry.rows // (getattr(entry, "whole_rows", None) or entry.rows))


def _bytes_of(path: Path) -> int:
    """Bytes on disk of a file, or of what has arrived of it."""
    for candidate in (path, path.with_name(f".{path.name}.partial")):
        if candidate.exists():
            return candidate.stat().st_blocks * 512
    return 0


def _in_units(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
