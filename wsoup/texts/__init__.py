"""Exact, fast text encoding: every class with every candidate, shared prefixes computed once. Start at `encoder`."""
