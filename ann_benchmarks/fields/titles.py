"""What people call the curves of a picture: the index, and only what differs between them."""

from collections.abc import Iterable

from .rows import FIELDS
from .series import Series

# Words in the names of algorithms as people write them; a name that begins with another word is left alone.
WORDS = {
    "pgvector": "", "hnsw": "HNSW", "ivfflat": "IVFFlat", "exact": "exact scan", "vchord": "VectorChord",
    "your": "your", "vchordg": "VectorChord graph", "pgpu": "VectorChord by pgpu", "pgvectorscale": "DiskANN",
}  # fmt: skip
ALWAYS = ("algorithm", "version")  # in every name, where there is one


def algorithm_title(name: str) -> str:
    """Write the name of an algorithm for people, such as HNSW halfvec for pgvector_hnsw_halfvec."""
    words = name.split("_")
    return " ".join(filter(None, (WORDS.get(word, word) for word in words))) if words[0] in WORDS else name


def short_names(each: Iterable[Series]) -> dict[str, str]:
    """Return what to call each of some series beside the others, by their labels.

    They keep their labels where what differs does not tell all of them apart.
    """
    series = {one.label: one for one in each}
    differing = [
        field
        for name, field in FIELDS.items()
        if name not in ALWAYS and len({getattr(one, name) for one in series.values()}) > 1
    ]
    names = {}
    for label, one in series.items():
        special = [field for field in one.special_fields if field in differing]
        parts = [field.write(field.words or field.label, one).removeprefix("by ") for field in special]
        title = f"{algorithm_title(one.algorithm)} {one.version}".strip()
        names[label] = ", ".join(filter(None, [title, *parts]))
    return names if len(set(names.values())) == len(names) else {label: label for label in names}
