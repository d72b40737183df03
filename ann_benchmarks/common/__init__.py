"""What every room uses: errors, files that are whole or absent, the command line, numbers in words."""

VERSION = "0.1.0"  # stored with each result; pyproject.toml has the same
