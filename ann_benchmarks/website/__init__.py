"""The website of all results: static pages that open from a file and fetch nothing from elsewhere."""

from ann_benchmarks.website.build import create_website

__all__ = ["create_website"]
