"""The public table of many machines: the points of submitted bundles, and a page for each of them."""

from .build import create_submissions_site

__all__ = ["create_submissions_site"]
