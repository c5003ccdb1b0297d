"""Pools of candidates, what selection may see, and the algorithms that make soups."""
