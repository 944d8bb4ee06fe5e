"""Benchmarks: `make bench`. They drive the program as a user does, and read servers, files and /proc."""
