"""Small things that ann-benchmarks' plug-ins import."""

import os


def get_bool_env_var(env_var_name: str, default_value: bool) -> bool:
    """Read a yes/no environment variable; unset or blank means the default."""
    text = os.environ.get(env_var_name, "").strip().lower()
    return text in {"1", "t", "true", "y", "yes", "on"} if text else default_value
