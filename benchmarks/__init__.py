"""Benchmarks: one file each, run by `make bench NAME=...`; a figure without a results file does not exist."""
