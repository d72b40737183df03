"""A plug-in's class as the framework uses it: construction, and the versions that it can have."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError

from .adapter import Plugin
from .methods import needed, optional


class PluginClass:
    """What a plug-in offers before anything is constructed; `constructor` is its class or function."""

    def __init__(self, constructor: Any) -> None:
        """Take the class."""
        self.constructor = constructor

    def construct(self, arguments: Sequence[Any]) -> Plugin:
        """Construct the algorithm with a definition's build arguments."""
        return Plugin(self.constructor(*arguments))

    def installed_versions(self) -> dict[str, str]:
        """Return the versions of what it uses, tried out; without the method, none are known."""
        return dict(optional(self.constructor, "installed_versions", dict)())

    def use_version(self, version: str) -> None:
        """Use a version of what it measures that is installed here; UserError where there is one only."""
        if (use := optional(self.constructor, "use_version")) is None:
            raise UserError(
                f"{self.constructor.__name__} has one version here, and a tag names another: leave it out, or"
                " leave --local out, as tags are also of images"
            )
        use(version)

    @property
    def can_be_installed(self) -> bool:
        """Whether install.py --local has something to do."""
        return optional(self.constructor, "install_local") is not None

    def install_local(self, archive: Path) -> str:
        """Install the release in an archive; return a line that says so."""
        return str(optional(self.constructor, "install_local")(archive))

    def install_version(self, version: str, archive: Path | None) -> str:
        """Install a version next to the one that is here; return a line that says so."""
        return str(needed(self.constructor, "install_version", "use_version")(version, archive))

    def local_target(self) -> dict[str, str]:
        """Return what a release has to be for."""
        return dict(needed(self.constructor, "local_target", "install_local")())

    def local_state(self) -> str:
        """Return a line that says what is installed."""
        return str(needed(self.constructor, "local_state", "install_local")())

    @property
    def instead_of_installing(self) -> str:
        """What the user can do where nothing can be installed."""
        return str(optional(self.constructor, "instead_of_installing", ""))

    def simulated_server(self, restart_command: str | None) -> Any:
        """Return the server that tiers simulate (tiers/server.py); UserError where it has none."""
        if (server := optional(self.constructor, "simulated_server")) is None:
            raise UserError(f"{self.constructor.__name__} runs no server: leave --tiers out")
        return server(restart_command)
