"""Exact nearest neighbours: float32 scores find who may be near, float64 decides who is.

How close calls are decided. The distance of a query to a row is the float64 result of
`ann_benchmarks.distance.pair_distances`: the square root of the summed squares of the differences
(euclidean), one minus the cosine (angular; 1 where a vector has no direction), minus the dot product (ip),
the sum of the differences' sizes (manhattan). The neighbours are the k smallest of these numbers, and of
equal numbers those with the smaller row number. Nothing else enters: a float32 matrix product (manhattan has
none, and takes many times as long) gives every row a score, and bounds on its error (bounds.py) say which
rows cannot be among the k nearest, however it was rounded. The others get their float64 distance. So the
answer does not depend on the size of blocks, the number of threads or machines, the BLAS or GPU in use.

The work: each thread takes the next block of rows, multiplies it with a group of queries, and compares the
product with one limit a query, the k-th smallest upper bound so far, on the processor or on a GPU
(devices.py), which keeps a span's rows if they fit. After the first few blocks almost nothing passes, so
that the product takes most of the time. A span (span.py) ends with float64 distances for the few rows left.
Spans are merged, saved, and may be searched by the workers of a cluster (truth.py).

Memory for 10,000 queries and k = 1,000: below 1 GB, whatever the number of rows; mostly candidates (16 bytes
for each of 2 k a query) and what is found (16 bytes for each of k a query, twice while spans are merged).
"""

from .devices import SEARCH_DEVICE as SEARCH_DEVICE
from .devices import open_device as open_device
from .truth import SearchOptions as SearchOptions
from .truth import exact_neighbors as exact_neighbors
from .truth import ground_truth as ground_truth
