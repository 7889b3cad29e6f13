"""Benchmarks: each runs the whole site and prints the figures of one run beside their bounds."""
