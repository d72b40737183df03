"""install.py for Docker: the base, then the images of plug-ins, several at a time, each checked."""

import argparse
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ann_benchmarks.common.command import signals_raise
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import definition_folders
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.common.text import clean_text, say, warn
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.jobs.events import Failure, Located
from ann_benchmarks.run.containers.containers import check_image
from ann_benchmarks.run.containers.engine import connect, reason

from . import debian
from .building import BuildFailed, ImageBuild, ImageBuildOptions, log_path
from .catalog import SMALL_BASE, ImageCatalog, ImageSpec
from .context import ca_bundle, read_build_arguments, read_certificates

DEFAULT_BASE = "debian:trixie-slim"
FROM_ARCHIVE = "debootstrap"  # the value of --base
BUILT, UNCHANGED, FAILED = "built", "unchanged", "failed"
_NUMBERS = 3  # columns of the table, from the third on


class Progress:
    """Shows builds, a line for each that moves on a terminal, else its begin and end."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._lines: dict[str, Any] = {}
        tqdm.set_lock(threading.RLock())

    def close(self) -> None:
        """Take what is shown off the terminal."""
        for line in self._lines.values():
            line.close()

    def begin(self, image: str) -> None:
        """Show that an image is begun."""
        if self._is_terminal:
            self._lines[image] = tqdm(
                file=sys.stdout, leave=False, bar_format="{desc}", desc=f"{image}: begun", dynamic_ncols=True
            )
        else:
            say(f"{image}: begun, its log is {log_path(image)}")

    def step(self, image: str, text: str) -> None:
        """Show what is done now."""
        if (line := self._lines.get(image)) is not None:
            line.set_description_str(f"{image}: {text}")

    def end(self, image: str, text: str, is_failure: bool = False) -> None:
        """Show what became of it; failures go to stderr."""
        if (line := self._lines.pop(image, None)) is not None:
            line.close()
        with tqdm.external_write_mode(file=sys.stdout):
            if is_failure:
                print(f"failed: {image}: {clean_text(text)}", file=sys.stderr, flush=True)
            else:
                say(f"{image}: {text}")


@dataclass(frozen=True)
class ImageOutcome:
    """An image that was to be built: sizes in bytes, None where it does not exist."""

    image: str
    state: str
    seconds: float = 0.0
    size: int | None = None
    own_size: int | None = None  # beyond what it starts from
    versions: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    def __str__(self) -> str:
        text = f"{self.state} in {self.seconds:.1f} s, {_megabytes(self.size)} MB"
        return f"{text}, {self.versions_text}" if self.versions else text

    @property
    def versions_text(self) -> str:
        """Its versions on one line."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


def sizes(client: Any, image: str, base: str) -> tuple[int | None, int | None]:
    """Bytes of an image, and of what it has beyond the one that it starts from, where that is still there."""
    found = _find_image(client, image)
    if found is None:
        return None, None
    size = found.attrs["Size"]
    below = None if base == "scratch" else _find_image(client, base)
    if below is None:
        return size, None if base != "scratch" else size
    layers, shared = found.attrs["RootFS"].get("Layers", []), below.attrs["RootFS"].get("Layers", [])
    return size, size - below.attrs["Size"] if layers[: len(shared)] == shared else None


def table(outcomes: Sequence[ImageOutcome]) -> list[str]:
    """Lines of a table; MB of an image's own are those beyond the image that it starts from."""
    rows = [("image", "state", "MB", "own MB", "seconds", "versions")]
    for each in outcomes:
        sizes = _megabytes(each.size), _megabytes(each.own_size)
        rows.append((each.image, each.state, *sizes, f"{each.seconds:.1f}", each.versions_text or "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if 2 <= number < 2 + _NUMBERS else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _find_image(client: Any, image: str) -> Any:
    from docker.errors import NotFound

    try:
        return client.images.get(image)
    except NotFound:
        return None


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / MB:,.0f}"


def build_images(args: argparse.Namespace) -> int:
    """Build the images that the command line requests; return 1 when one failed."""
    given = read_build_arguments(args.build_arg or [])
    bundle = ca_bundle(args.ca_bundle)
    certificates = {} if bundle is None else read_certificates(*bundle)
    configs, broken = read_configs(*definition_folders(args.definitions))
    base = args.base or DEFAULT_BASE
    is_from_archive = base == FROM_ARCHIVE
    mirror = apt_mirror(args.mirror, is_from_archive)
    catalog = ImageCatalog(
        args.definitions, configs, broken, given, debian.IMAGE if is_from_archive else base, mirror
    )
    specs = catalog.specs(args.algorithm)
    if args.algorithm is None:
        for config in broken:
            warn(f"{config.problem}; its image is built, but not checked")
        for image, advice in catalog.left_out.items():
            warn(f"{image} is left out: {advice}")
    client = connect()
    outcomes: list[ImageOutcome] = []
    with signals_raise(is_once=True), closing(Progress()) as progress:
        if is_from_archive and any(spec.image == SMALL_BASE for spec in specs):
            outcomes.append(_debian(client, args.mirror, bundle and bundle[0], args.no_cache, progress))
        options = ImageBuildOptions(args.definitions, certificates, args.no_cache)
        outcomes += ImageBuilder(client, options, progress).build(specs, args.proc or 1)
    for line in table(outcomes):
        print(line)
    return 1 if any(outcome.state == FAILED for outcome in outcomes) else 0


def apt_mirror(mirror: str | None, is_from_archive: bool) -> str | None:
    """What apt is to use in place of http://deb.debian.org, None where nothing else."""
    archive = debian.archive_address(mirror)
    if mirror is None or (is_from_archive and not archive.endswith("/debian")):
        return None  # what debootstrap makes has the archive's address already
    if not archive.endswith("/debian"):
        raise UserError(
            f"--mirror {mirror} does not end in /debian, so that the place of Debian's security fixes is"
            " unknown: give a mirror laid out as deb.debian.org is, or --base debootstrap"
        )
    return archive.removesuffix("/debian")


def _debian(
    client: Any, mirror: str | None, bundle: Path | None, is_anew: bool, progress: Progress
) -> ImageOutcome:
    begun = time.perf_counter()
    state = UNCHANGED
    if is_anew or not debian.has_debian(client, mirror):
        debian.check_can_make()
        progress.begin(debian.IMAGE)
        debian.make_debian(client, mirror, bundle, lambda text: progress.step(debian.IMAGE, text))
        state = BUILT
    size, own_size = sizes(client, debian.IMAGE, "scratch")
    outcome = ImageOutcome(debian.IMAGE, state, time.perf_counter() - begun, size, own_size)
    if state == BUILT:
        progress.end(debian.IMAGE, str(outcome))
    return outcome


class ImageBuilder:
    """Builds images, each when what it needs is there."""

    def __init__(self, client: Any, options: ImageBuildOptions, progress: Progress) -> None:
        self.client, self.options, self.progress = client, options, progress
        self._builds: dict[Future[ImageOutcome], ImageBuild] = {}
        self._known: set[str] = set()  # beginnings of what has been built

    def build(self, specs: Sequence[ImageSpec], at_once: int) -> list[ImageOutcome]:
        """Build all, `at_once` of them at a time; return what became of each, in the order of their ends."""
        outcomes: dict[str, ImageOutcome] = {}
        waiting = list(specs)
        with ThreadPoolExecutor(at_once) as pool:
            try:
                while waiting or self._builds:
                    for spec in list(waiting):
                        failed = [
                            name for name in spec.needs if name in outcomes and outcomes[name].state == FAILED
                        ]
                        if failed:
                            failure = f"not built, since {failed[0]} failed"
                            outcomes[spec.image] = self._show(
                                ImageOutcome(spec.image, FAILED, failure=failure)
                            )
                            waiting.remove(spec)
                        elif len(self._builds) < at_once and self._may_begin(spec, outcomes):
                            self._begin(spec, pool)
                            waiting.remove(spec)
                    ended, _ = wait(self._builds, return_when=FIRST_COMPLETED)
                    for future in ended:
                        spec = self._builds.pop(future).spec
                        self._known.add(spec.beginning)
                        # In this thread, which Ctrl-C interrupts: it removes the container.
                        outcome = self._checked(spec, future.result())
                        outcomes[spec.image] = self._show(outcome)
            except BaseException:
                for build in self._builds.values():
                    build.abort()
                raise
        return list(outcomes.values())

    def _may_begin(self, spec: ImageSpec, outcomes: Mapping[str, ImageOutcome]) -> bool:
        """Whether what it needs is there, and no layers are being built that it will find in the cache."""
        begun = {build.spec.beginning for build in self._builds.values()} - self._known
        return spec.beginning not in begun and all(name in outcomes for name in spec.needs)

    def _begin(self, spec: ImageSpec, pool: ThreadPoolExecutor) -> None:
        self.progress.begin(spec.image)
        build = ImageBuild(connect(), spec, self.options)
        self._builds[pool.submit(self._build, build)] = build

    def _build(self, build: ImageBuild) -> ImageOutcome:
        from docker.errors import DockerException

        image = build.spec.image
        begun = time.perf_counter()
        try:
            before = _find_image(build.client, image)
            build.run(lambda text: self.progress.step(image, text))
            state = UNCHANGED if _find_image(build.client, image) == before else BUILT
            size, own_size = sizes(build.client, image, build.spec.base)
            return ImageOutcome(image, state, time.perf_counter() - begun, size, own_size)
        except BuildFailed as error:
            failure = f"{error} (see {log_path(image)})"
        except DockerException as error:
            failure = f"the engine: {reason(error)}"
        finally:
            build.client.close()
        return ImageOutcome(image, FAILED, time.perf_counter() - begun, failure=failure)

    def _checked(self, spec: ImageSpec, outcome: ImageOutcome) -> ImageOutcome:
        from docker.errors import DockerException

        versions: dict[str, str] = {}
        if outcome.state == FAILED:
            return outcome
        for definition in spec.definitions:
            self.progress.step(spec.image, f"check of {definition.algorithm}")
            try:
                found = check_image(self.client, spec.image, definition, self.options.definitions)
                problem = found.text if isinstance(found, Failure) else ""
                versions |= found.facts if isinstance(found, Located) else {}
            except (UserError, DockerException) as error:
                problem = reason(error)
            if problem:
                failure = f"{definition.algorithm} does not work in it: {problem}"
                return replace(outcome, state=FAILED, versions=versions, failure=failure)
        return replace(outcome, versions=versions)

    def _show(self, outcome: ImageOutcome) -> ImageOutcome:
        is_failure = outcome.state == FAILED
        self.progress.end(outcome.image, outcome.failure if is_failure else str(outcome), is_failure)
        return outcome
