"""The k-means that computes an index's centroids outside the server. Not an algorithm."""
