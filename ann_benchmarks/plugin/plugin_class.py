"""A plug-in's class as the framework uses it, and the names that the framework looks for in plug-ins.

docs/plugins.md lists the names for those who write a plug-in; a test compares the two.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ann_benchmarks.common.errors import UserError

# Methods and class methods that a plug-in may have besides those of BaseANN.
METHODS = (
    *("set_query_arguments", "supports_prepared_queries", "query_verbose", "time_queries", "search_range"),
    *("prepare_query", "run_prepared_query", "get_prepared_query_results"),
    *("prepare_batch_query", "run_batch_query", "get_batch_latencies"),
    *("open_clients", "most_clients", "set_payload"),
    *("set_row_attributes", "set_query_filters", "filtered_query"),
    *("set_load_options", "set_build_options", "serve_only", "set_phase_listener"),
    *("watch_server", "open_monitor", "cool", "recover", "rest", "resume", "open_writable"),
    *("learns_from_rows", "installed_versions", "server_environment", "use_version", "install_version"),
    *("simulated_server", "check_server", "check_turns", "use_settings", "set_servers"),
    *("servers_environment", "install_local", "local_target", "local_state"),
)
# Class attributes.
ATTRIBUTES = ("streams_training_set", "has_found_index", "instead_of_installing")
_OPTIONAL = METHODS + ATTRIBUTES
NOTHING: Mapping[str, Any] = MappingProxyType({})
# What may be requested, the methods of which a plug-in needs one for it, and what to do where it has none.
NEEDS = {
    "filters": (
        ("set_row_attributes", "filtered_query"),
        "takes no filters: leave --filter out",
    ),
    "payload": (("set_payload",), "returns ids alone: leave --payload out"),
    **{
        kind: (("set_servers",), f"has one server, or none: leave --{kind} out")
        for kind in ("shards", "pooler", "replicas")
    },
}


def optional(plugin: Any, name: str, default: Any = None) -> Any:
    """Return a method or attribute of a plug-in or its class, the default where it has none."""
    assert name in _OPTIONAL, name
    return getattr(plugin, name, default)


def needed(plugin: Any, name: str, by: str) -> Any:
    """Return a method that a plug-in must have because it has another; UserError where it lacks it."""
    if (method := optional(plugin, name)) is None:
        owner = plugin if isinstance(plugin, type) else type(plugin)
        raise UserError(f"{owner.__name__} has {by} but no {name}: define both, or neither")
    return method


class Unavailable(UserError):
    """A plug-in cannot have what was requested; where it was not named, it is left out."""

    is_unavailable = True


def require(plugin: Any, name: str, need: str) -> None:
    """Raise UserError where a plug-in, or its class, has none of the methods that a need of NEEDS takes."""
    methods, problem = NEEDS[need]
    if all(optional(plugin, method) is None for method in methods):
        raise Unavailable(f"{name} {problem}")


class PluginClass:
    """What a plug-in offers before anything is constructed; `constructor` is its class or function."""

    def __init__(self, constructor: Any) -> None:
        self.constructor = constructor

    def installed_versions(self) -> dict[str, str]:
        """Return the versions of what it uses, tried out; without the method, none are known."""
        return dict(optional(self.constructor, "installed_versions", dict)())

    def server_environment(self, kind: str = "", arguments: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
        """Return what is stored of the servers that would be measured, without a start.

        A plug-in without servers_environment is taken to have one server in any case.
        """
        if kind and (report := optional(self.constructor, "servers_environment")):
            return dict(report(kind, **arguments))
        return dict(optional(self.constructor, "server_environment", dict)())

    def use_version(self, version: str) -> None:
        """Use a version of what it measures that is installed here; UserError where there is one only."""
        if (use := optional(self.constructor, "use_version")) is None:
            raise UserError(
                f"{self.constructor.__name__} has one version here, and a tag names another: leave it out, or"
                " leave --local out, as tags are also of images"
            )
        use(version)

    def check(self, needs: Iterable[str]) -> None:
        """Raise UserError where it cannot have what NEEDS names; what a function constructs is not known yet.

        Two needs are methods of their own: "server", whether its server has all that it takes, and "turns",
        whether its indexes can rest and resume there.
        """
        for need in needs:
            if need in ("server", "turns"):
                optional(self.constructor, f"check_{need}", lambda: None)()
            elif isinstance(self.constructor, type):
                require(self.constructor, self.constructor.__name__, need)

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

    def simulated_server(self) -> Any:
        """Return the servers that tiers simulate (tiers/sweep.py); UserError where it has none."""
        if (server := optional(self.constructor, "simulated_server")) is None:
            raise UserError(f"{self.constructor.__name__} runs no server: leave --tiers out")
        return server()
