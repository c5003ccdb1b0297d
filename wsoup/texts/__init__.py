"""Exact fast text encoding: every class with every candidate, beginnings computed once. See `encoder`."""
