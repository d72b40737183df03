"""File names of pages, made from names that may hold anything."""

import hashlib
import re

LONGEST = 120  # characters, far below what file systems take


class PageNames:
    """Gives every page a file name of its own, also where case does not tell files apart."""

    def __init__(self) -> None:
        self._taken = {"index"}

    def take(self, title: str) -> str:
        """Return a file name: `title` itself where it is safe, else with a hash that keeps it apart."""
        safe = re.sub(r"[^A-Za-z0-9._-]+", "_", title)[:LONGEST].strip("._-")
        if not safe or safe != title or safe.lower() in self._taken:
            digest = hashlib.sha256(title.encode()).hexdigest()
            safe = f"{safe or 'page'}-{digest[:8]}"
        self._taken.add(safe.lower())
        return f"{safe}.html"
