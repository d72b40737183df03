"""Which variables plug-ins have, and the programs that they start: any other may be a secret.

There is one list. The framework, which starts the processes of plug-ins and imports nothing of theirs, has it
by the link ann_benchmarks/run/variables.py.
"""

import os
import re

FURTHER = "ANN_BENCHMARKS_VARIABLES"  # names of others that are handed on
_PROGRAMS = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|TERM|TMPDIR|TZDIR|"
    "(LD|DYLD|GLIBC|MALLOC|CUDA|NVIDIA|NCCL|HIP|HSA|ROCR|OMP|GOMP|KMP|OPENBLAS|MKL|BLIS|RUST|RAYON)_.*"
)
_PLUGINS = re.compile(
    "LANG|LANGUAGE|LC_.*|TZ|COLUMNS|LINES|NO_COLOR|VIRTUAL_ENV|CONDA_PREFIX|MPLCONFIGDIR|"
    "ANN_.*|PYTHON[A-Z]*|PG[A-Z]+|KRB5.*|(XDG|SSL_CERT|DASK|NUMBA|NUMEXPR|TORCH|PYTORCH|XLA|FAISS|HDF5)_.*"
)


def plugin_environment() -> dict[str, str]:
    """Return what the process of a plug-in has, which user code runs in."""
    return _allowed(_PROGRAMS, _PLUGINS)


def program_environment() -> dict[str, str]:
    """Return what a server, a pooler or another program has: nothing that changes what it does or prints."""
    return _allowed(_PROGRAMS) | {"LANG": "C", "LC_ALL": "C", "TZ": "UTC"}


def _allowed(*patterns: "re.Pattern[str]") -> dict[str, str]:
    further = re.split(r"[\s,]+", os.environ.get(FURTHER, ""))
    return {
        name: value
        for name, value in os.environ.items()
        if name in further or any(pattern.fullmatch(name) for pattern in patterns)
    }
