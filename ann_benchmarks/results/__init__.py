"""What a measured point is: file, attributes, metrics, intervals, cache, frontier, warnings."""
