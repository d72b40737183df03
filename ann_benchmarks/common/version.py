"""The version that is stored with each result; pyproject.toml has the same."""

VERSION = "0.1.0"
