"""The exception for what the user can mend about a clustering."""


class ClusteringError(RuntimeError):
    """Its text is one line: what is wrong with the rows, the settings or the device, and what to do."""
