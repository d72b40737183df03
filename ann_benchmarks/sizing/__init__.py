"""Sizing: what an index will be with more rows than were measured, by laws that are fitted to samples."""
