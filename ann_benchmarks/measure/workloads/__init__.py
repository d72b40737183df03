"""Workloads that write: inserts by many clients, and changes beside queries."""
