"""What people call the software whose versions a result states in its attributes NAME_version."""

from collections.abc import Mapping
from typing import Any

from ann_benchmarks.common.foreign import from_json

ATTRIBUTE = "version_names"  # of a result: NAME -> what people call it, as its plug-in says
SUFFIX = "_version"
_OTHERS = ("framework_version", "pgbench_version")
_EARLIER = {"postgres": "PostgreSQL", "vector": "pgvector", "vchord": "VectorChord"}  # where none were stored


def version_names(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return what people call each version of a result, by its attribute."""
    known = _EARLIER | from_json(attrs.get(ATTRIBUTE), dict[str, Any]())
    stems = (name.removesuffix(SUFFIX) for name in attrs if name.endswith(SUFFIX) and name not in _OTHERS)
    return {f"{stem}{SUFFIX}": str(known.get(stem, stem)) for stem in stems}
