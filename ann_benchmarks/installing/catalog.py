"""Which images are to be built, from which Dockerfiles, on which others, with which arguments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import BrokenConfig, Config
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.selection import split_tag, tagged

from .context import ALGORITHMS, BuildArguments, Dockerfile, check_used, read_dockerfile

PREFIX = "ann-benchmarks-"
BASE_FOLDER = "base"
SMALL_BASE = "ann-benchmarks-base"  # what our own Dockerfiles start from
LARGE_BASE = "ann-benchmarks"  # with the tools that those of ann-benchmarks take for granted
MIRROR = "APT_MIRROR"  # the argument of Dockerfiles for what is in place of http://deb.debian.org


@dataclass(frozen=True)
class ImageSpec:
    """One image: its Dockerfile in the context, its arguments, and the images that come before it."""

    image: str
    dockerfile: str
    arguments: BuildArguments
    base: str  # what it starts from
    needs: tuple[str, ...]  # those of this project's images that it is made of
    definitions: tuple[Definition, ...]  # what is to work in it, one of each plug-in


class ImageCatalog:
    """Every Dockerfile that there is, under the options of the command line."""

    def __init__(
        self,
        folder: Path,
        configs: Sequence[Config],
        broken: Sequence[BrokenConfig],
        given: BuildArguments,
        base: str,
        mirror: str | None,
    ) -> None:
        """Find the Dockerfiles; `base` is what the bases themselves start from, `mirror` apt's."""
        self.configs = configs
        self.broken = broken
        self.given = given
        self.base = base
        self.mirror = mirror
        self.left_out: dict[str, str] = {}  # by specs(): images, and what to give for them
        own = folder / BASE_FOLDER
        bases = own if (own / "Dockerfile").is_file() else DEFINITIONS_FOLDER / BASE_FOLDER
        self.files = {
            image: path
            for image, path in (
                (SMALL_BASE, bases / "Dockerfile"),
                (LARGE_BASE, bases / "Dockerfile.tools"),
            )
            if path.is_file()
        }
        self.plugins = sorted(
            path.parent.name for path in folder.glob("*/Dockerfile") if path.parent.name != BASE_FOLDER
        )
        self.files |= {PREFIX + name: folder / name / "Dockerfile" for name in self.plugins}

    def specs(self, requested: str | None) -> list[ImageSpec]:
        """Return the images to build for NAME[:TAG], or for all plug-ins; each after those that it needs."""
        if requested is None:
            chosen = {PREFIX + name: None for name in self.plugins}
            tag, definitions = None, None
            if not chosen:
                raise UserError("no plug-in has a Dockerfile: there is nothing to build (--definitions)")
        else:
            name, tag = split_tag(requested)
            image, definitions = self._find(name)
            if tag is not None and image in (SMALL_BASE, LARGE_BASE):
                raise UserError(f"the base has no versions: write --algorithm {name}")
            chosen = {image: None}
        dockerfiles: dict[str, Dockerfile] = {}
        for image in list(chosen):
            needed: dict[str, Dockerfile] = {}
            self._collect(image, needed)
            missing = [
                f"--build-arg {name}=./FILE.deb with {what}"
                for file in needed.values()
                for name, what in file.packages.items()
                if name not in self.given.packages
            ]
            if not missing:
                dockerfiles |= needed
            elif requested is not None:
                raise UserError(f"{image} needs a package that you have: give {missing[0]}")
            else:
                self.left_out[image] = f"give {missing[0]}"
                del chosen[image]
        declared = {name for dockerfile in dockerfiles.values() for name in dockerfile.arguments}
        check_used(self.given, declared)
        needs = {image: self._needs(image, file) for image, file in dockerfiles.items()}
        try:
            order = [*TopologicalSorter(needs).static_order()]
        except CycleError as error:
            raise UserError(f"these images are made of each other: {', '.join(error.args[1])}") from None
        return [
            self._spec(image, dockerfiles[image], *((tag, definitions) if image in chosen else (None, None)))
            for image in order
        ]

    def _find(self, name: str) -> tuple[str, list[Definition] | None]:
        """The image of an algorithm, of a plug-in's folder, or the base."""
        for config in self.configs:
            for definition in _plugins_of(config):
                if definition.algorithm != name:
                    continue
                image = definition.docker_tag.partition(":")[0]
                for known in (image, PREFIX + config.path.parent.name):
                    if known in self.files:
                        return known, [definition]
                path = config.path.with_name("Dockerfile")
                raise UserError(f"'{name}' has no Dockerfile ({path}): run it with run.py --local")
        if name == BASE_FOLDER and SMALL_BASE in self.files:
            return SMALL_BASE, None
        if name in self.plugins:
            return PREFIX + name, None
        for broken in self.broken:
            if broken.mentions(name):
                raise UserError(broken.problem)
        known_names = [known for config in self.configs for known in config.names()]
        raise UserError(
            f"unknown algorithm '{name}'; {closest(name, [*known_names, *self.plugins, BASE_FOLDER])}"
        )

    def _collect(self, image: str, into: dict[str, Dockerfile]) -> None:
        """Put an image's Dockerfile, and those of the images that it needs, into a mapping."""
        if image not in into:
            into[image] = read_dockerfile(self.files[image])
            for needed in self._needs(image, into[image]):
                self._collect(needed, into)

    def _needs(self, image: str, dockerfile: Dockerfile) -> list[str]:
        bases = dockerfile.bases(self._arguments(image, dockerfile).values)
        names = (base.removesuffix(":latest") for base in bases)
        return [name for name in dict.fromkeys(names) if name in self.files]

    def _arguments(self, image: str, dockerfile: Dockerfile) -> BuildArguments:
        """Those of the given arguments that it declares, and what it is to start from."""
        given = self.given.only(dockerfile.arguments)
        values = dict(given.values)
        if self.mirror and MIRROR in dockerfile.arguments:
            values.setdefault(MIRROR, self.mirror)
        if "BASE" in dockerfile.arguments:
            if image == SMALL_BASE:
                values["BASE"] = self.base
            elif image == LARGE_BASE:
                values["BASE"] = SMALL_BASE
            else:
                values.setdefault("BASE", SMALL_BASE)
        return BuildArguments(values, given.packages)

    def _spec(
        self, image: str, dockerfile: Dockerfile, tag: str | None, definitions: list[Definition] | None
    ) -> ImageSpec:
        arguments = self._arguments(image, dockerfile)
        folder = self.files[image].parent.name
        return ImageSpec(
            image=tagged(image, tag),
            dockerfile=f"{ALGORITHMS}/{folder}/{self.files[image].name}",
            arguments=arguments,
            base=dockerfile.bases(arguments.values)[-1],
            needs=tuple(self._needs(image, dockerfile)),
            definitions=tuple(self._definitions_for(image, folder) if definitions is None else definitions),
        )

    def _definitions_for(self, image: str, folder: str) -> Iterable[Definition]:
        """One definition of each plug-in that is to run in the image."""
        found: dict[tuple[str, str], Definition] = {}
        for config in self.configs:
            for definition in _plugins_of(config):
                if definition.docker_tag.partition(":")[0] == image:
                    found.setdefault((definition.module, definition.constructor), definition)
        return found.values()


def _plugins_of(config: Config) -> list[Definition]:
    lists = (entries for metrics in config.entries.values() for entries in metrics.values())
    return [
        Definition(entry["name"], entry["constructor"], entry["module"], entry["docker_tag"], [], [], False)
        for entries in lists
        for entry in entries
    ]
