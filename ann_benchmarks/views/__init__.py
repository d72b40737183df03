"""One subject a file: what results say about it, as lines, tables and sentences."""
