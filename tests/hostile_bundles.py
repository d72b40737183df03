"""Bundles that are to lead a checker astray, stop it, or fill its memory."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.submission.manifest import MANIFEST

from .bundle_data import DATASET, set_attributes
from .tampering import Tampering, attrs, first, of_claim, replace_in

DEEP = "[" * 100_000


def with_member(name: str, make: Callable[[h5py.File], Any]) -> Callable[[Path], None]:
    """Have a result hold something else by a name."""

    def change(folder: Path) -> None:
        with h5py.File(first(folder), "r+") as file:
            if name in file:
                del file[name]
            make(file)

    return change


def cut(folder: Path) -> None:
    content = first(folder).read_bytes()
    first(folder).write_bytes(content[: len(content) // 2])


def scribbled(folder: Path) -> None:
    content = bytearray(first(folder).read_bytes())
    content[100:4000:7] = bytes(len(range(100, 4000, 7)))
    first(folder).write_bytes(bytes(content))


def large_chunk(file: h5py.File) -> None:
    file.create_dataset("times", (8,), "f8", maxshape=(None,), chunks=(1 << 28,), compression="gzip")


def declared(file: h5py.File) -> None:
    file.create_dataset("times", (1 << 40,), "f4", chunks=(1 << 10,))


def of_zeros(file: h5py.File) -> None:
    file.create_dataset("more", data=np.zeros(1 << 23), compression="gzip", compression_opts=9, shuffle=True)


def other_file(file: h5py.File) -> None:
    file["times"] = h5py.ExternalLink("/etc/passwd", "/")


def soft_link(file: h5py.File) -> None:
    file["times"] = h5py.SoftLink("/distances")


def set_more(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["more"] = [1]


def many(file: h5py.File) -> None:
    for number in range(2100):
        file.attrs[f"a{number}"] = 1


def in_manifest(old: str, new: str) -> Callable[[Path], None]:
    return replace_in(MANIFEST, lambda text: re.sub(old, new, text))


def holding(name: str, text: str) -> Callable[[Path], None]:
    return replace_in(name, lambda old: text)


def linked(target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = first(folder)
        path.unlink()
        path.symlink_to(target)

    return change


HOSTILE = (
    Tampering("a file cut short", "readable", "cannot be read", cut),
    Tampering("a file overwritten here and there", "readable", "", scribbled),
    Tampering("no HDF5", "readable", "cannot be read", lambda folder: first(folder).write_text("no")),
    Tampering("a huge shape", "readable", "declares", with_member("times", declared)),
    Tampering("huge chunks", "readable", "declares", with_member("times", large_chunk)),
    Tampering("compressed zeros", "readable", "does not belong there", with_member("more", of_zeros)),
    Tampering("a link into another file", "readable", "has a link", with_member("times", other_file)),
    Tampering("a link inside", "readable", "has a link", with_member("times", soft_link)),
    Tampering("thousands of attributes", "readable", "attributes", with_member("more", many)),
    Tampering("another array", "readable", "has 'more', which does not belong there",
              with_member("more", lambda file: file.create_dataset("more", data=[1]))),
    Tampering("another array of the truth", "truth", "has 'more', which does not belong there",
              lambda folder: set_more(folder / f"truth/{DATASET}.hdf5")),
    Tampering("no times", "readable", "has no times", with_member("times", lambda file: None)),
    Tampering("a nested attribute", "readable", "no series",
              lambda folder: set_attributes(first(folder), series=DEEP)),
    Tampering("runs of no time", "readable", "the seconds of its runs",
              of_claim(run_seconds=[0.0, 0.1, 0.1])),
    Tampering("a run of hardly any time", "readable", "'run_seconds'",
              of_claim(run_seconds=[1e-200, 0.1])),
    Tampering("runs that are not numbers", "readable", "'run_seconds'",
              of_claim(run_seconds=[np.nan] * 3)),
    Tampering("a query of no time", "readable", "the seconds of a query", of_claim(best_search_time=0.0)),
    Tampering("memory that is a list", "readable", "'memory_bytes'", attrs(memory_bytes=[1, 2, 3])),
    *(
        Tampering(f"a file {name}", "report", "is neither a page nor a picture",
                  lambda folder, name=name: (folder / "report" / name).write_text(""))
        for name in ("CON.txt", "-rf", ".git")
    ),
    Tampering("two names that differ in case", "files", "does not belong to a bundle",
              lambda folder: (folder / "readme.md").write_text("")),
    Tampering("a page of bytes", "report", "cannot be read",
              lambda folder: (folder / "report/report.md").write_bytes(b"\xff")),
)  # fmt: skip
# No manifest can list these.
OUTSIDE = (
    Tampering("an experiment that is not there", "manifest", "experiment.yml is not there",
              in_manifest('"experiment": null', '"experiment": "demo"')),
    Tampering("a link to a file", "paths", "is a link", linked("/etc/hostname")),
    Tampering("a link to a folder", "paths", "is a link",
              lambda folder: (folder / "logs").symlink_to("/tmp")),
    Tampering("a pipe", "paths", "not a regular file", lambda folder: os.mkfifo(folder / "pipe")),
    Tampering("a name with a line in it", "paths", "a name that",
              lambda folder: (folder / "a\nb").write_text("")),
    Tampering("no manifest", "manifest", "not a bundle", lambda folder: (folder / MANIFEST).unlink()),
    Tampering("a manifest nested deeply", "manifest", "not JSON", holding(MANIFEST, DEEP)),
    Tampering("no JSON", "manifest", "not JSON", holding(MANIFEST, "{")),
    Tampering("NaN", "manifest", "target_recall",
              replace_in(MANIFEST, lambda t: re.sub(": 0\\.5\\b", ": NaN", t))),
    Tampering("a path that leads out", "manifest", "the path of a file in this folder",
              in_manifest('"README.md"', '"../README.md"')),
    Tampering("another dataset's size", "readable", "the manifest says",
              in_manifest('"queries": 100', '"queries": 101')),
    Tampering("another fingerprint", "truth", "have the fingerprint",
              in_manifest('"fingerprint": "...', '"fingerprint": "000')),
)  # fmt: skip
