"""Pools, what selection may see, and the statistics of every candidate: a new kind of soup ranks nothing again."""
