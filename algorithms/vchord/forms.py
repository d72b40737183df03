"""The forms of vectors that VectorChord's indexes take."""

from ..postgres.errors import PostgresError
from ..postgres.forms import Form, cast_form, halfvec_form, vector_form

FORMS = ("vector", "halfvec", "rabitq8", "rabitq4")
_SINCE_1_1 = ("rabitq8", "rabitq4")


def check_form(name: str) -> str:
    """Return a form's name; PostgresError where there is no such form."""
    if name not in FORMS:
        raise PostgresError(f"form '{name}' is not known: use one of {', '.join(FORMS)}")
    return name


def vchord_form(name: str, metric: str, dimension: int, version: str) -> Form:
    """Return the form of that name; PostgresError where this version of VectorChord does not have it."""
    if name not in _SINCE_1_1:
        return (vector_form if name == "vector" else halfvec_form)(metric, dimension)
    if tuple(map(int, version.split(".")[:2])) < (1, 1):
        raise PostgresError(
            f"form '{name}' came with VectorChord 1.1, the server has {version}: use form: halfvec, "
            "or install a newer version"
        )
    code_bytes = dimension if name == "rabitq8" else -(-dimension // 2)
    return cast_form(metric, dimension, name, 24 + code_bytes, f"quantize_to_{name}({{}})")
