"""Metrics of stored results, and the pictures, tables and pages made from them."""
