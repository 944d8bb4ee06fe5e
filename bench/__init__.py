"""The benchmarks of `make bench`: how fast a harvest is, and whether it stays so as a map grows."""
