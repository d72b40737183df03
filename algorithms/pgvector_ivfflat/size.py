"""What pgvector's IVFFlat index takes; `value_bytes` is what a vector takes in it."""

import math

MOST_LISTS = 32_768


def automatic_lists(rows: int) -> int:
    """pgvector's own advice: a thousandth of the rows up to a million of them, their square root beyond."""
    return min(max(rows // 1000 if rows <= 1_000_000 else round(math.sqrt(rows)), 1), MOST_LISTS)


def build_bytes(rows: int, dimension: int, value_bytes: int, lists: int) -> int:
    """Memory that the k-means requests, in bytes; pgvector refuses to exceed maintenance_work_mem.

    50 rows for each list are sampled, 10,000 at least; Elkan's algorithm keeps a bound for each of them and
    each centre, the distances between all centres, and two sets of centres.
    """
    samples = min(max(50 * lists, 10_000), rows)
    bounds = 4 * samples * lists + 8 * samples + 4 * lists * lists + 8 * lists
    return bounds + samples * value_bytes + lists * (2 * value_bytes + 4 * dimension + 4)


def index_bytes(rows: int, value_bytes: int, lists: int) -> int:
    """Size on disk in bytes: a list begins a page of its own, and its last one is half full on average.

    A page of 8 KiB has 8,160 bytes for tuples of 8 bytes, the value, and a line pointer.
    """
    a_page = 8160 // (-(-(8 + value_bytes) // 8) * 8 + 4) or 1
    centres = math.ceil(lists / (8160 // (-(-(8 + value_bytes) // 8) * 8 + 4) or 1))
    pages = max(math.ceil(rows / a_page + lists / 2), lists) + centres + 1
    return pages * 8192
