"""Names that ann-benchmarks' plug-ins import."""

INDEX_DIR = "indices"
