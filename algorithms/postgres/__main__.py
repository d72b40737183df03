"""Print the folder of the embedded PostgreSQL's programs: python -m algorithms.postgres.

Its pg_config says where that PostgreSQL's headers are, so that an extension can be built for it.
"""

import sys

from .errors import PostgresError
from .servers.programs import embedded_installation


def main() -> None:
    """Print it, or why it is not there."""
    try:
        print(embedded_installation() / "bin")
    except PostgresError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
