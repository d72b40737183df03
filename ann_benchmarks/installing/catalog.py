"""Which images are to be built, from which Dockerfiles, on which others, with which arguments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ann_benchmarks.common import VERSION
from ann_benchmarks.common.errors import UserError, closest
from ann_benchmarks.definitions.configs import BrokenConfig, Config
from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER, Definition
from ann_benchmarks.definitions.tags import split_tag, tagged

from .build_inputs import BuildArguments, check_used
from .context import ALGORITHMS, Dockerfile, read_dockerfile
from .downloading import RestrictedPackage, read_restricted

PREFIX = "ann-benchmarks-"
BASE_FOLDER = "base"
SMALL_BASE = "ann-benchmarks-base"  # what our own Dockerfiles start from
LARGE_BASE = "ann-benchmarks"  # with the tools that those of ann-benchmarks take for granted
ARGUMENTS_LABEL = "ann-benchmarks.build-args"
BASE_LABEL = "ann-benchmarks.base"
VERSION_LABEL = "ann-benchmarks.version"
MIRROR = "APT_MIRROR"  # the argument of Dockerfiles for what is in place of http://deb.debian.org


@dataclass(frozen=True)
class ImageSpec:
    """One image: its Dockerfile in the context, its arguments, and the images that come before it."""

    image: str
    dockerfile: str
    arguments: BuildArguments
    base: str  # what it starts from
    needs: tuple[str, ...]  # those of this project's images that it is made of
    beginning: str  # images with the same have layers in common
    labels: Mapping[str, str]
    definitions: tuple[Definition, ...]  # what is to work in it, one of each plug-in
    download: RestrictedPackage | None = None  # the package that is downloaded first


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
        secrets: Iterable[str] = (),
    ) -> None:
        """Find the Dockerfiles; `base` is what the bases themselves start from, `mirror` apt's.

        `secrets` are the names of those that the user gives.
        """
        self.configs = configs
        self.broken = broken
        self.given = given
        self.base = base
        self.mirror = mirror
        self.secrets = frozenset(secrets)
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
        self.restricted: dict[str, RestrictedPackage] = {}
        self.problems: dict[str, str] = {}  # images whose download.yml cannot be used, and why
        for image, path in self.files.items():
            try:
                if restricted := read_restricted(path.parent):
                    self.restricted[image] = restricted
            except UserError as error:
                self.problems[image] = str(error)
        self._check_secrets_are_known()

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
        left_out_declare: set[str] = set()
        for image in list(chosen):
            needed: dict[str, Dockerfile] = {}
            self._collect(image, needed, ())
            problem = next((self.problems[name] for name in needed if name in self.problems), None)
            packages = [package for package in map(self._download, needed) if package]
            missing = [package for package in packages if package.secret not in self.secrets]
            if problem is None and missing:
                problem = missing[0].advice
                left_out_declare |= {name for file in needed.values() for name in file.arguments}
            if problem is None:
                dockerfiles |= needed
            elif requested is not None:
                raise UserError(problem)
            else:
                self.left_out[image] = problem
                del chosen[image]
        declared = {name for dockerfile in dockerfiles.values() for name in dockerfile.arguments}
        if meant := left_out_declare.difference(declared).intersection(self.given.values):
            advice = next(iter(self.left_out.values()))
            raise UserError(f"{', '.join(sorted(meant))} is for an image that cannot be built: {advice}")
        check_used(self.given, declared)
        return [
            self._spec(image, dockerfile, *((tag, definitions) if image in chosen else (None, None)))
            for image, dockerfile in dockerfiles.items()
        ]

    def _check_secrets_are_known(self) -> None:
        known = sorted({restricted.secret for restricted in self.restricted.values()})
        for name in known:
            if name in self.given.values:
                raise UserError(
                    f"{name} is a secret, and build arguments stay in an image's history:"
                    f" write --secret {name}"
                )
        for name in self.secrets.difference(known):
            hint = closest(name, known) if known else "none is needed"
            raise UserError(f"no image needs a secret {name}; {hint}")

    def _download(self, image: str) -> RestrictedPackage | None:
        """What has to be downloaded for an image: nothing where the user gave the file."""
        restricted = self.restricted.get(image)
        return None if restricted is None or restricted.argument in self.given.packages else restricted

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
            f"there is no algorithm '{name}'; {closest(name, [*known_names, *self.plugins, BASE_FOLDER])}"
        )

    def _collect(self, image: str, into: dict[str, Dockerfile], path: tuple[str, ...]) -> None:
        """Put an image's Dockerfile behind those of the images that it needs."""
        if image in path:
            raise UserError(f"these images are made of each other: {', '.join(path)}")
        if image in into:
            return
        dockerfile = read_dockerfile(self.files[image])
        for needed in self._needs(image, dockerfile):
            self._collect(needed, into, (*path, image))
        into[image] = dockerfile

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
        base = dockerfile.bases(arguments.values)[-1]
        labels = {
            ARGUMENTS_LABEL: str(arguments.only(set(self.given.values) - {"BASE"})),
            VERSION_LABEL: VERSION,
        }
        if base.removesuffix(":latest") not in self.files:
            labels[BASE_LABEL] = base  # images that are made of this one inherit it
        folder = self.files[image].parent.name
        download = self._download(image)
        if download is not None:
            download = replace(download, environment={**dockerfile.values, **arguments.values})
        return ImageSpec(
            image=tagged(image, tag),
            dockerfile=f"{ALGORITHMS}/{folder}/{self.files[image].name}",
            arguments=arguments,
            base=base,
            needs=tuple(self._needs(image, dockerfile)),
            beginning=f"{base}\n{dockerfile.beginning}",
            labels=labels,
            definitions=tuple(self._definitions_for(image, folder) if definitions is None else definitions),
            download=download,
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
