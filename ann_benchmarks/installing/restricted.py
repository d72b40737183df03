"""download.yml: a package that a Dockerfile needs and that only the holder of a secret can download."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ann_benchmarks.common.errors import UserError

_KEYS = {"argument", "secret", "source"}


@dataclass(frozen=True)
class Restricted:
    """What `argument` of a Dockerfile stands for; `script` downloads it, given `secret`."""

    plugin: str
    argument: str
    secret: str
    source: str  # whose packages they are, for people
    script: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # for the script: arguments of the build

    @property
    def advice(self) -> str:
        """Say what to give."""
        return (
            f"the package of '{self.plugin}' comes from {self.source}: give your token with"
            f" --secret {self.secret} (the variable of that name holds it) or --secret {self.secret}=FILE,"
            f" or a package that you have with --build-arg {self.argument}=./FILE.deb"
        )


def read_restricted(folder: Path) -> Restricted | None:
    """Read the download.yml of a plug-in's folder, None where it has none; UserError names its mistakes."""
    path = folder / "download.yml"
    if not path.is_file():
        return None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if (
        not isinstance(content, dict)
        or set(content) != _KEYS
        or not all(isinstance(value, str) for value in content.values())
    ):
        raise UserError(f"{path} must have the lines argument: ..., secret: ..., source: ...")
    script = folder / "download.sh"
    if not script.is_file():
        raise UserError(f"{path} is for a script download.sh beside it, which is not there")
    return Restricted(folder.name, script=script, **content)
