"""Vectors in files of any format and any size, read by range."""
