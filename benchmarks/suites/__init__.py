"""One module per subject; each has ``BENCHMARKS``, functions by the name of their result."""
