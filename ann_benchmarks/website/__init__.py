"""The website of all results: static pages that open from a file and fetch nothing from elsewhere."""
