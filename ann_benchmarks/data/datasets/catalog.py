"""Datasets by name: files under data/, made or downloaded on first use; and a table of all names."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from ann_benchmarks.common.errors import UserError, nearest, shown
from ann_benchmarks.common.names import checked_name
from ann_benchmarks.common.numbers import UNKNOWN, size_text
from ann_benchmarks.common.text import clean_text

from . import generated
from .dataset import DATA_FOLDER, Dataset
from .downloads import get_parts
from .filter_files import filter_folder, filter_path, read_filter_set, stored_filters
from .parts import Parts
from .queries import TrueNeighbors, read_truth, truth_path
from .registry import Entry, SingleFile, aliases, find_entry, read_description, registered
from .samples import SAMPLE_OF, sample_name, sampled, write_sample
from .truth_check import check_path

_HEAD = ("name", "rows", "dimensions", "metric", "size", "present")


def dataset_path(name: str) -> Path:
    """Where the file of a dataset in one file is or would be."""
    return DATA_FOLDER / f"{name}.hdf5"


def description_path(name: str) -> Path:
    """Where the description of a dataset in files of one's own is or would be."""
    return DATA_FOLDER / f"{name}.yml"


def present_names() -> list[str]:
    """Names of the datasets whose files are all there."""
    found = {path.stem for path in DATA_FOLDER.glob("*.hdf5")} | {
        path.stem for path in DATA_FOLDER.glob("*.yml")
    }
    found |= {name for name, entry in registered().items() if all(path.exists() for path in entry.files())}
    return sorted(name for name in found if not name.startswith("."))


def is_present(name: str) -> bool:
    """Whether all files of a dataset are there."""
    entry = entry_of(name)
    return entry is not None and all(path.exists() for path in entry.files())


def dataset_files(name: str) -> list[Path]:
    """All files that an open dataset of this name is read from, those of its true neighbours included."""
    name = canonical_name(name)
    entry = entry_of(name)
    files = entry.files() if entry is not None else []
    described_by = [description_path(name)] if isinstance(entry, Parts) else []
    filters = filter_folder(name, DATA_FOLDER).rglob("[!.]*.h5")
    truth_files = [truth_path(name, DATA_FOLDER), check_path(name, DATA_FOLDER)]
    files = [*files, *described_by, *truth_files, *sorted(filters)]
    return [path for path in dict.fromkeys(files) if path.exists()]


def is_downloaded(name: str) -> bool:
    """Whether a dataset's files come from elsewhere, rather than being made here."""
    entry = described(name)
    return isinstance(entry, Parts) or bool(entry and entry.url)


def dataset_names() -> list[str]:
    """Every registered name and those in data/; of those of any size only what is there."""
    return sorted({*registered(), *present_names()})


def canonical_name(name: str) -> str:
    """The name that an alias stands for; any other name, and that of a file in data/, is its own.

    UserError for what cannot be the name of a file. All names that people give come through here.
    """
    checked_name(name, "dataset")
    if dataset_path(name).exists() or description_path(name).exists():
        return name
    return aliases().get(name, name)


def described(name: str) -> Entry | None:
    """What data/NAME.yml or the registry says of a name; None if neither knows it."""
    if name == Path(name).name and description_path(name).exists():
        return read_description(description_path(name))
    return find_entry(name)


def entry_of(name: str) -> Entry | None:
    """What a name stands for: a file of that name in data/, else what describes it; None if nothing does."""
    if name != Path(name).name or not dataset_path(name).exists():
        return described(name)
    entry = find_entry(name)
    return replace(entry, name=name) if isinstance(entry, SingleFile) else SingleFile(name, distance="")


def make_dataset(name: str) -> None:
    """Get what is missing of a dataset, or make its one file anew. UserError if the name is unknown."""
    entry = described(checked_name(name, "dataset"))
    base, part = sampled(name)
    if entry is None and part == 1:
        raise _unknown(name)
    if entry is None:
        make_sample(base, part, force=True)
    elif isinstance(entry, Parts):
        get_parts(entry, DATA_FOLDER)
    else:
        entry.make()


def get_dataset(name: str) -> tuple[Dataset, int]:
    """Open a dataset, making or downloading it first if need be; also its dimension.

    Raises UserError when the name is unknown, the dataset cannot be had or one of its files is damaged.
    """
    name = canonical_name(name)
    if not is_present(name):
        make_dataset(name)
    entry = entry_of(name)
    assert entry is not None
    dataset = entry.open()
    return dataset, dataset.attrs["dimension"]


def make_sample(name: str, part: int, force: bool = False) -> None:
    """See that the sample with one row in `part` of a dataset is there, drawn from its present vectors.

    Part 1 is the dataset itself, which is left as it is. UserError where no sample can be drawn, or something
    else has its name.
    """
    name = canonical_name(name)
    sample = sample_name(name, part)
    if part == 1:
        return
    if sampled(name)[1] > 1:
        raise UserError(f"{name} is a sample itself; draw samples of {sampled(name)[0]}")
    with get_dataset(name)[0] as whole:
        if is_present(sample):
            with get_dataset(sample)[0] as found:
                drawn_from = found.attrs.get(SAMPLE_OF)
            if drawn_from is None:
                raise UserError(f"{sample} must be a sample of {name}; move what has this name out of data/")
            if drawn_from == whole.mark() and not force:
                return
        write_sample(dataset_path(sample), whole, part)
    remove_replaced(sample, description_path(sample))


def remove_replaced(name: str, other: Path) -> None:
    """Remove what belongs to vectors that were replaced: their true neighbours, filters and other form."""
    for path in (truth_path(name, DATA_FOLDER), other):
        path.unlink(missing_ok=True)
    shutil.rmtree(filter_folder(name, DATA_FOLDER), ignore_errors=True)


def truth_file(name: str, filter: str = "") -> Path:
    """The file of the true neighbours of a dataset, or of those under a filter set; it need not exist."""
    if filter:
        return filter_path(name, filter, DATA_FOLDER)
    found = truth_path(name, DATA_FOLDER)
    return found if found.exists() else dataset_path(name)


def stored_truth(name: str, filter: str = "") -> TrueNeighbors:
    """True neighbours of a dataset, without its vectors, which may be on another machine.

    With the name of a filter set, those under the filters: inf where fewer than k rows pass.
    """
    if filter:
        return read_filter_set(truth_file(name, filter), name)[1]
    path = truth_file(name)
    if path != dataset_path(name):
        return read_truth(path)
    entry = entry_of(name)
    if entry is None:
        raise _unknown(name)
    with entry.open() as dataset:
        return dataset.truth()


def make_truth_file(name: str) -> None:
    """See that the true neighbours of a dataset are in a file; a dataset of one file is downloaded for it.

    Raises UserError when it would take all the files of a large one.
    """
    if truth_file(name).exists():
        return
    base = sampled(name)[0]
    if not is_present(name) and not is_present(base) and isinstance(described(base), Parts):
        raise UserError(
            f"{truth_path(name, DATA_FOLDER)}, which holds the true distances of {name}, is missing: copy it"
            f" from where the results were measured, or: python create_dataset.py --dataset {name}"
        )
    with get_dataset(name)[0] as dataset:
        dataset.truth()


def _unknown(name: str) -> UserError:
    close = nearest(name, [*dataset_names(), *aliases()], most=3)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return UserError(
        f"unknown dataset '{shown(name)}'; {hint}'python create_dataset.py --list' names them all and "
        "'python create_dataset.py --name NAME --train FILE' makes one from your vectors"
    )


def datasets_json() -> str:
    """Return the same as JSON: a list of objects; null is not known yet."""
    numbers = ("rows", "dimensions")
    found = []
    for line in map(_line, dataset_names()):
        cells: dict[str, object] = dict(zip(_HEAD, line, strict=True))
        for name in numbers:
            text = str(cells[name]).replace(",", "")
            cells[name] = int(text) if text.isdecimal() else None
        found.append(cells | {"present": line[-1].startswith("yes")})
    return json.dumps(found, indent=1)


def dataset_table() -> str:
    """One line a dataset: name, rows, dimension, metric, size of the vectors; '-' is not known yet."""
    rows = [_HEAD, *(_line(name) for name in dataset_names())]
    rows += [(pattern, "any", "any", "any", "", "") for pattern in generated.PATTERNS]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    line = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<>><>", widths, strict=True)) + "  {}"
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
    entry, complete = None, ""
    files = [dataset_path(name)]
    try:
        entry = described(name)
        if (found := entry_of(name)) is not None:
            files = found.files()
        if is_present(name):
            with get_dataset(name)[0] as dataset:
                shape = f"{dataset.rows:,}", f"{dataset.attrs['dimension']:,}", dataset.attrs["distance"]
                complete = "yes" if dataset.has_truth() else "yes, without true neighbours"
        elif entry is not None:
            known = [UNKNOWN if number is None else f"{number:,}" for number in (entry.rows, entry.dimension)]
            shape = known[0], known[1], entry.distance
        else:
            shape = UNKNOWN, UNKNOWN, UNKNOWN
    except UserError:
        shape, complete = ("damaged", UNKNOWN, UNKNOWN), "yes"
    if not complete and any(path.exists() for path in files):
        complete = "partly"
    return name, *shape, _size(entry), complete


def _size(entry: Entry | None) -> str:
    """Write the size of the vectors: what a format with fixed sizes takes, else about what float32 takes."""
    if entry is None or entry.rows is None or entry.dimension is None or entry.distance == "jaccard":
        return UNKNOWN
    published = entry.size_of(entry.train[0]) if isinstance(entry, Parts) else None
    if published is None:
        return f"~{size_text(entry.rows * entry.dimension * (1 if entry.distance == 'hamming' else 4))}"
    return size_text(published * entry.rows // (getattr(entry, "whole_rows", None) or entry.rows))
