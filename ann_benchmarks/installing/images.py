"""install.py for Docker: the base, then the images of plug-ins, several at a time, each checked."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from ann_benchmarks.common.command import signals_raise
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import definition_folders
from ann_benchmarks.common.numbers import MB
from ann_benchmarks.common.text import clean_text, say, warn
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.jobs.events import Failure
from ann_benchmarks.run.containers.containers import check_image
from ann_benchmarks.run.containers.engine import connect, reason

from . import debian
from .building import BuildFailed, ImageBuild, ImageBuildOptions, log_path
from .catalog import SMALL_BASE, ImageCatalog, ImageSpec
from .context import ca_bundle, read_build_arguments, read_certificates

DEFAULT_BASE = "debian:trixie-slim"
FROM_ARCHIVE = "debootstrap"  # the value of --base


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
    with signals_raise(is_once=True):
        if is_from_archive and any(spec.image == SMALL_BASE for spec in specs):
            _make_debian(client, args.mirror, bundle and bundle[0], args.no_cache)
        options = ImageBuildOptions(args.definitions, certificates, args.no_cache)
        failed = ImageBuilder(client, options).build(specs, args.proc or 1)
    return 1 if failed else 0


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


def _make_debian(client: Any, mirror: str | None, bundle: Path | None, is_anew: bool) -> None:
    """Make the image that bases start from, unless it is there, and say so."""
    if is_anew or not debian.has_debian(client, mirror):
        debian.check_can_make()
        began = time.perf_counter()
        _say_begun(debian.IMAGE)
        debian.make_debian(client, mirror, bundle)
        say(f"{debian.IMAGE}: {_built(client, debian.IMAGE, None, began)}")


def _say_begun(image: str) -> None:
    say(f"{image}: begun, its log is {log_path(image)}")


def _built(client: Any, image: str, before: Any, began: float) -> str:
    """Say what became of an image; `before` is what had its name."""
    found = _find_image(client, image)
    state = "unchanged" if found == before else "built"
    return f"{state} in {time.perf_counter() - began:.1f} s, {found.attrs['Size'] / MB:,.0f} MB"


def _find_image(client: Any, image: str) -> Any:
    from docker.errors import NotFound

    try:
        return client.images.get(image)
    except NotFound:
        return None


class ImageBuilder:
    """Builds images, each when what it needs is there."""

    def __init__(self, client: Any, options: ImageBuildOptions) -> None:
        self.client, self.options = client, options
        self._builds: dict[Future[str], ImageBuild] = {}

    def build(self, specs: Sequence[ImageSpec], at_once: int) -> set[str]:
        """Build all, `at_once` of them at a time; say what became of each, and return those that failed."""
        by_image = {spec.image: spec for spec in specs}
        waiting = TopologicalSorter({spec.image: spec.needs for spec in specs})
        waiting.prepare()
        failed: set[str] = set()
        with ThreadPoolExecutor(at_once) as pool:
            try:
                while waiting.is_active():
                    for image in waiting.get_ready():
                        if lacking := [name for name in by_image[image].needs if name in failed]:
                            failed.add(image)
                            _say_failed(image, f"not built, since {lacking[0]} failed")
                            waiting.done(image)
                        else:
                            build = ImageBuild(connect(), by_image[image], self.options)
                            self._builds[pool.submit(self._build, build)] = build
                    ended, _ = wait(self._builds, return_when=FIRST_COMPLETED)
                    for future in ended:
                        spec = self._builds.pop(future).spec
                        if not self._is_fine(spec, future):
                            failed.add(spec.image)
                        waiting.done(spec.image)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for build in self._builds.values():
                    build.abort()
                raise
        return failed

    def _build(self, build: ImageBuild) -> str:
        began = time.perf_counter()
        try:
            _say_begun(build.spec.image)
            before = _find_image(build.client, build.spec.image)
            build.run()
            return _built(build.client, build.spec.image, before, began)
        except BuildFailed as error:
            raise BuildFailed(f"{error} (see {log_path(build.spec.image)})") from None
        finally:
            build.client.close()

    def _is_fine(self, spec: ImageSpec, built: "Future[str]") -> bool:
        """Say what became of a build, whose image is checked; return whether all is well.

        It is checked in this thread, which Ctrl-C interrupts: it removes the container.
        """
        from docker.errors import DockerException

        versions: dict[str, str] = {}
        try:
            text = built.result()
            for definition in spec.definitions:
                found = check_image(self.client, spec.image, definition, self.options.definitions)
                if isinstance(found, Failure):
                    raise BuildFailed(f"{definition.algorithm} does not work in it: {found.text}")
                versions |= found.facts
        except BuildFailed as error:
            _say_failed(spec.image, str(error))
            return False
        except (UserError, DockerException) as error:
            _say_failed(spec.image, f"the engine: {reason(error)}")
            return False
        say(", ".join([f"{spec.image}: {text}", *(f"{name} {value}" for name, value in versions.items())]))
        return True


def _say_failed(image: str, text: str) -> None:
    print(f"failed: {image}: {clean_text(text)}", file=sys.stderr, flush=True)
