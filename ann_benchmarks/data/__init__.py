"""Vectors and datasets: read, made, downloaded, with their exact neighbours."""
