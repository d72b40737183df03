"""What pgvector's HNSW graph takes, by the sizes of its structures.

`value_bytes` is what a vector takes in the index.
"""

import math


def graph_bytes(rows: int, value_bytes: int, m: int) -> int:
    """Memory of the graph while it is built, in bytes.

    By the sizes of pgvector's structures: an element, its value, a pointer to the neighbours of each level,
    2 m neighbours of 16 bytes on level 0 and m on each level above. A node reaches level L with probability
    (1/m)^L, which makes 1/(m-1) upper levels on average. efConstruction has no part in it.
    """
    level_zero = 128 + _aligned(value_bytes) + 8 + _aligned(8 + 32 * m)
    upper = (8 + _aligned(8 + 16 * m)) / (m - 1)
    return math.ceil(rows * (level_zero + upper))


def index_bytes(rows: int, value_bytes: int, m: int) -> int:
    """Size of the graph on disk, in bytes, by the layout of pgvector's pages.

    A page of 8 KiB has 8,160 bytes for whole nodes: an element of 72 bytes and its value, 2 m neighbours of
    6 bytes each, and two line pointers; a node that does not fit takes two pages. Upper levels add m
    neighbours to a node for each, 1/(m-1) levels on average. One more page describes the index.
    """
    node = _aligned(72 + value_bytes) + _aligned(4 + 2 * m * 6) + 8
    whole_nodes = 8160 // node or 0.5
    pages_a_node = max(1 / whole_nodes, (node + 6 * m / (m - 1)) / 8160)
    return (math.ceil(rows * pages_a_node) + 1) * 8192


def _aligned(size: int) -> int:
    return -(-size // 8) * 8
