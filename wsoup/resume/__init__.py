"""Finished shards of long work, and the code and packages that they belong to."""
