"""A table of the datasets that can be named."""

from ..errors import UserError
from . import clustered, dataset_names, dataset_path, present_names
from .file import Dataset
from .registry import find_entry


def dataset_table() -> str:
    """One line a dataset: name, training rows, dimension, metric and presence; '-' is not known yet."""
    present = set(present_names())
    rows = [("name", "rows", "dimensions", "metric", "present")]
    rows += [
        (name, *_described(name, name in present), "yes" if name in present else "")
        for name in dataset_names()
    ]
    rows.append((clustered.PATTERN, "any", "any", "any", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    name, count, dimension, metric = widths
    line = f"{{:<{name}}}  {{:>{count}}}  {{:>{dimension}}}  {{:<{metric}}}  {{}}"
    return "\n".join(line.format(*row).rstrip() for row in rows)


def _described(name: str, present: bool) -> tuple[str, str, str]:
    entry = find_entry(name)
    if present:
        try:
            with Dataset(dataset_path(name)) as dataset:
                count = len(dataset["size_train" if dataset.attrs["type"] == "sparse" else "train"])
                return f"{count:,}", f"{dataset.attrs['dimension']:,}", dataset.attrs["distance"]
        except UserError:
            return "damaged", "-", "-"
    if entry is None:
        return "-", "-", "-"
    known = [f"{number:,}" if number is not None else "-" for number in (entry.rows, entry.dimension)]
    return known[0], known[1], entry.metric
