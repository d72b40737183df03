"""Random numbers that are functions of a place: whole numbers alone make them, so that all machines agree.

The mixing function is splitmix64's (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators,
2014). The permutation is a Feistel network (Luby and Rackoff, 1988), walked until it is back in range.
"""

import hashlib

import numpy as np

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ROUNDS = 6


def mixed(stream: str, places: np.ndarray) -> np.ndarray:
    """Return a random uint64 for each place, a whole number from 0, of the stream of this name."""
    seed = int.from_bytes(hashlib.blake2b(stream.encode(), digest_size=8).digest(), "little")
    bits = places.astype(np.uint64) * np.uint64(_STEP) + np.uint64(seed)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND)
    return bits ^ (bits >> np.uint64(31))


def fractions(stream: str, places: np.ndarray) -> np.ndarray:
    """Return a random float64 from 0 to below 1 for each place."""
    return (mixed(stream, places) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(stream: str, places: np.ndarray, size: int) -> np.ndarray:
    """Return a random int64 from 0 to `size` - 1 for each place."""
    return np.minimum((fractions(stream, places) * size).astype(np.int64), size - 1)


def permuted(stream: str, places: np.ndarray, size: int) -> np.ndarray:
    """Return where a random permutation of 0 to `size` - 1 takes each place, int64."""
    half = max(1, -(-max(size - 1, 1).bit_length() // 2))
    found = _network(stream, places.astype(np.uint64), half)
    outside = np.flatnonzero(found >= size)
    while len(outside):
        found[outside] = _network(stream, found[outside], half)
        outside = outside[found[outside] >= size]
    return found.astype(np.int64)


def _network(stream: str, places: np.ndarray, half: int) -> np.ndarray:
    """Permute the numbers of 2 `half` bits."""
    width, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = places >> width, places & mask
    for number in range(_ROUNDS):
        left, right = right, left ^ (mixed(f"{stream} {number}", right) & mask)
    return (left << width) | right
