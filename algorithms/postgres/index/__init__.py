"""Indexes of a table: built once and found again, divided among parts, and queried."""
