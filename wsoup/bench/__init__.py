"""Will this machine do? Ours and the plain way, timed in turn in one run, with random weights.

Each function returns a dict of JSON values, which `common.table` draws; `benchmarks/` has further scripts.
"""
