"""The names that the framework looks for in a plug-in, and the only functions that do.

docs/plugins.md lists them for those who write a plug-in; a test compares the two.
"""

from typing import Any

from ann_benchmarks.common.errors import UserError

# Methods and class methods that a plug-in may have besides those of BaseANN.
METHODS = (
    *("set_query_arguments", "supports_prepared_queries", "query_verbose", "time_queries", "search_range"),
    *("prepare_query", "run_prepared_query", "get_prepared_query_results"),
    *("prepare_batch_query", "run_batch_query", "get_batch_latencies", "open_clients", "clients_opener"),
    *("most_clients", "set_load_options", "set_build_options", "serve_only", "set_phase_listener"),
    *("watch_server", "open_monitor", "cool", "recover", "open_writable", "learns_from_rows"),
    *("installed_versions", "use_version", "install_version", "simulated_server"),
    *("install_local", "local_target", "local_state"),
)
# Class attributes.
ATTRIBUTES = ("streams_training_set", "clients_by", "drivers", "instead_of_installing")
_OPTIONAL = METHODS + ATTRIBUTES


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
