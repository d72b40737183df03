"""install.py for Docker: the base, then the images of plug-ins, several at a time, each checked."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ann_benchmarks.common.cli import INTERRUPTED
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import warn
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.run.containers.check import check_image
from ann_benchmarks.run.containers.engine import connect, reason

from . import debian
from .build_arguments import read_build_arguments
from .build_log import log_path
from .building import Build, BuildFailed
from .certificates import ca_bundle, read_certificates
from .outcomes import BUILT, FAILED, UNCHANGED, Outcome, image_id, sizes, table
from .progress import Progress
from .recipes import SMALL_BASE, Cookbook, Recipe
from .secrets import read_secrets

DEFAULT_BASE = "debian:trixie-slim"
FROM_ARCHIVE = "debootstrap"  # as --base


def build_images(args: argparse.Namespace) -> int:
    """Build what the command line asks for; 1 when an image failed."""
    given = read_build_arguments(args.build_arg or [])
    secrets = read_secrets(args.secret or [])
    bundle = ca_bundle(args.ca_bundle)
    certificates = {} if bundle is None else read_certificates(*bundle)
    configs, broken = read_configs(args.definitions)
    base = args.base or DEFAULT_BASE
    is_from_archive = base == FROM_ARCHIVE
    mirror = apt_mirror(args.mirror, is_from_archive)
    cookbook = Cookbook(
        args.definitions, configs, broken, given, debian.IMAGE if is_from_archive else base, mirror, secrets
    )
    recipes = cookbook.recipes(args.algorithm)
    if args.algorithm is None:
        for config in broken:
            warn(f"{config.problem}; its image is built, but not checked")
        for image, advice in cookbook.left_out.items():
            warn(f"{image} is left out: {advice}")
    client = connect()
    outcomes: list[Outcome] = []
    try:
        with _once_interrupted(), Progress() as progress:
            if is_from_archive and any(recipe.image == SMALL_BASE for recipe in recipes):
                outcomes.append(_debian(client, args.mirror, bundle and bundle[0], args.no_cache, progress))
            kitchen = Kitchen(client, args.definitions, certificates, args.no_cache, progress, secrets)
            outcomes += kitchen.build(recipes, args.proc or 1)
    except KeyboardInterrupt:
        print("interrupted; images that are finished are kept, the same command goes on", file=sys.stderr)
        return INTERRUPTED
    for line in table(outcomes):
        print(line)
    return 1 if any(outcome.state == FAILED for outcome in outcomes) else 0


def apt_mirror(mirror: str | None, is_from_archive: bool) -> str | None:
    """What apt is to use in place of http://deb.debian.org, None where nothing else."""
    archive = debian.archive_of(mirror)
    if mirror is None or (is_from_archive and not archive.endswith("/debian")):
        return None  # what debootstrap makes has the archive's address already
    if not archive.endswith("/debian"):
        raise UserError(
            f"--mirror {mirror} does not end in /debian, and so does not tell where Debian's security fixes"
            " are: give a mirror laid out as deb.debian.org is, or --base debootstrap"
        )
    return archive.removesuffix("/debian")


def _debian(
    client: Any, mirror: str | None, bundle: Path | None, is_anew: bool, progress: Progress
) -> Outcome:
    begun = time.perf_counter()
    state = UNCHANGED
    if is_anew or not debian.has_debian(client, mirror):
        debian.check_can_make()
        progress.begin(debian.IMAGE)
        debian.make_debian(client, mirror, bundle, lambda text: progress.step(debian.IMAGE, text))
        state = BUILT
    size, own_size = sizes(client, debian.IMAGE, "scratch")
    outcome = Outcome(debian.IMAGE, state, time.perf_counter() - begun, size, own_size)
    if state == BUILT:
        progress.end(debian.IMAGE, str(outcome))
    return outcome


class Kitchen:
    """Builds recipes, each when what it needs is there."""

    def __init__(
        self,
        client: Any,
        definitions: Path,
        certificates: Mapping[str, bytes],
        is_anew: bool,
        progress: Progress,
        secrets: Mapping[str, str],
    ) -> None:
        """Take what all builds have in common."""
        self.client = client
        self.definitions = definitions
        self.certificates = certificates
        self.is_anew = is_anew
        self.progress = progress
        self.secrets = secrets
        self._builds: dict[Future[Outcome], Build] = {}
        self._known: set[str] = set()  # beginnings of what has been built

    def build(self, recipes: Sequence[Recipe], at_once: int) -> list[Outcome]:
        """Build all, so many at once; what became of each, in the order in which they ended."""
        outcomes: dict[str, Outcome] = {}
        waiting = list(recipes)
        with ThreadPoolExecutor(at_once) as pool:
            try:
                while waiting or self._builds:
                    for recipe in list(waiting):
                        failed = [name for name in recipe.needs if _is_failed(outcomes.get(name))]
                        if failed:
                            failure = f"not built, since {failed[0]} failed"
                            outcomes[recipe.image] = self._show(
                                Outcome(recipe.image, FAILED, failure=failure)
                            )
                            waiting.remove(recipe)
                        elif len(self._builds) < at_once and self._may_begin(recipe, outcomes):
                            self._begin(recipe, pool)
                            waiting.remove(recipe)
                    ended, _ = wait(self._builds, return_when=FIRST_COMPLETED)
                    for future in ended:
                        recipe = self._builds.pop(future).recipe
                        self._known.add(recipe.beginning)
                        # In this thread, which Ctrl-C interrupts: it removes the container.
                        outcome = self._checked(recipe, future.result())
                        outcomes[recipe.image] = self._show(outcome)
            except BaseException:
                for build in self._builds.values():
                    build.abort()
                raise
        return list(outcomes.values())

    def _may_begin(self, recipe: Recipe, outcomes: Mapping[str, Outcome]) -> bool:
        """Whether what it needs is there, and no layers are being built that it will find in the cache."""
        begun = {build.recipe.beginning for build in self._builds.values()} - self._known
        return recipe.beginning not in begun and all(name in outcomes for name in recipe.needs)

    def _begin(self, recipe: Recipe, pool: ThreadPoolExecutor) -> None:
        self.progress.begin(recipe.image)
        build = Build(connect(), recipe, self.definitions, self.certificates, self.is_anew, self.secrets)
        self._builds[pool.submit(self._build, build)] = build

    def _build(self, build: Build) -> Outcome:
        from docker.errors import DockerException

        image = build.recipe.image
        begun = time.perf_counter()
        try:
            before = image_id(build.client, image)
            build.run(lambda text: self.progress.step(image, text))
            state = UNCHANGED if image_id(build.client, image) == before else BUILT
            size, own_size = sizes(build.client, image, build.recipe.base)
            return Outcome(image, state, time.perf_counter() - begun, size, own_size)
        except BuildFailed as error:
            failure = f"{error} (see {log_path(image)})"
        except DockerException as error:
            failure = f"the engine: {reason(error)}"
        finally:
            build.client.close()
        return Outcome(image, FAILED, time.perf_counter() - begun, failure=failure)

    def _checked(self, recipe: Recipe, outcome: Outcome) -> Outcome:
        from docker.errors import DockerException

        versions: dict[str, str] = {}
        if outcome.state == FAILED:
            return outcome
        for definition in recipe.definitions:
            self.progress.step(recipe.image, f"check of {definition.algorithm}")
            try:
                checked = check_image(self.client, recipe.image, definition, self.definitions)
                versions |= checked.versions
                problem = checked.problem
            except (UserError, DockerException) as error:
                problem = reason(error)
            if problem:
                failure = f"{definition.algorithm} does not work in it: {problem}"
                return replace(outcome, state=FAILED, versions=versions, failure=failure)
        return replace(outcome, versions=versions)

    def _show(self, outcome: Outcome) -> Outcome:
        is_failure = outcome.state == FAILED
        self.progress.end(outcome.image, outcome.failure if is_failure else str(outcome), is_failure)
        return outcome


def _is_failed(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.state == FAILED


@contextmanager
def _once_interrupted() -> Iterator[None]:
    """Make other signals that end a program what Ctrl-C is; what is put away then is not interrupted."""

    def interrupt(number: int, frame: Any) -> NoReturn:
        for each in before:
            # Not SIG_IGN, of which Python complains when two signals come at once.
            signal.signal(each, lambda number, frame: None)
        raise KeyboardInterrupt

    # A signal that whoever started us lets us ignore, as nohup does, stays ignored.
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in numbers if signal.getsignal(each) != signal.SIG_IGN}
    for each in before:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
