"""Standbys of the server that has the table and its index: they follow its log, and clients query them."""
