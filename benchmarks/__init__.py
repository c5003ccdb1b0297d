"""Measurements that are no tests: `python -m benchmarks.search`, `.train`, `.gpu`."""
