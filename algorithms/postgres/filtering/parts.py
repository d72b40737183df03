"""Building many indexes of vectors, each in a transaction of its own: what is there is found again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from ..building import MOST_NOTICES, Index, IndexBuild, IndexHooks
from ..catalog import BuiltIndex
from ..progress import progress_bar
from ..servers import Server
from ..settings import size_text
from .division import Part


@dataclass(frozen=True)
class BuildPlace:
    """Where indexes are built, and what of it they depend on."""

    server: Server
    connection: psycopg.Connection[Any]
    versions: Mapping[str, str]


class IndexParts:
    """The indexes of all parts of a table."""

    def __init__(self) -> None:
        """There are none yet."""
        self.built: Sequence[BuiltIndex] = []
        self.are_found = False  # all of them, as an earlier run has built them

    @property
    def facts(self) -> dict[str, Any]:
        """What is stored of all builds: settings and messages of the largest, the sum of the estimates."""
        if not self.built:
            return {}
        facts = dict(self.built[0].facts)
        notices = [notice for built in self.built for notice in built.facts.get("build_notices", [])]
        if notices:
            facts["build_notices"] = notices[:MOST_NOTICES]
        sizes = [built.facts.get("estimated_index_size", 0.0) for built in self.built]
        return facts | ({"estimated_index_size": sum(sizes)} if all(sizes) else {})

    def build(
        self, place: BuildPlace, parts: Sequence[Part], hooks: IndexHooks, dimension: int,
        rebuilds: bool, only_finds: bool,
    ) -> None:  # fmt: skip
        """Build those that are not there yet, or all; with `only_finds` none, and PostgresError instead."""
        indexes = [_index_of(part, hooks, dimension) for part in parts]
        builds = [
            IndexBuild(place.server, place.connection, part.table, index, place.versions, True)
            for part, index in zip(parts, indexes, strict=True)
        ]
        if only_finds:
            self.built, self.are_found = [build.found() for build in builds], True
        else:
            missing = [rebuilds or build.find() is None for build in builds]
            every = list(zip(parts, indexes, builds, missing, strict=True))
            _announce(place.server, [index for _, index, _, is_missing in every if is_missing])
            rows = sum(part.rows for part, _, _, is_missing in every if is_missing)
            built = []
            with progress_bar(rows, f"building {_counted(sum(missing))}") as bar:
                for part, _, build, is_missing in every:
                    built.append(build.run(part.rows, hooks, rebuilds)[0])
                    bar.update(part.rows if is_missing else 0)
            self.built, self.are_found = built, not any(missing)
            _report([each for each, is_missing in zip(built, missing, strict=True) if is_missing], len(built))
        if not parts:
            print("no value has enough rows for an index of its own: none is built", flush=True)


def _announce(server: Server, indexes: Sequence[Index]) -> None:
    """Say what is about to be built, and see that the disk has room for it."""
    if not indexes:
        return
    disk, memory = sum(index.disk_bytes for index in indexes), max(index.build_memory for index in indexes)
    server.check_disk(disk, "the indexes")
    on_disk = f", about {size_text(disk)} on disk" if disk else ""
    are, each = ("is", "") if len(indexes) == 1 else ("are", " each")
    what = f"{_counted(len(indexes))} {are} to be built"
    print(f"{what}, with up to {size_text(memory)} of memory{each}{on_disk}", flush=True)


def _report(built: Sequence[BuiltIndex], every: int) -> None:
    """Say what was built, of `every` index that there is now."""
    if built:
        seconds = sum(each.build_seconds for each in built)
        in_all = " in all" if len(built) > 1 else ""
        found = f"; {_counted(every - len(built))} found as built before" if len(built) < every else ""
        print(f"{_counted(len(built))} built ({seconds:.1f} s{in_all}){found}", flush=True)


def _counted(indexes: int) -> str:
    return "1 index" if indexes == 1 else f"{indexes:,} indexes"


def _index_of(part: Part, hooks: IndexHooks, dimension: int) -> Index:
    index = hooks.index(part.rows, dimension)
    assert index is not None
    return replace(index, predicate=part.predicate)
