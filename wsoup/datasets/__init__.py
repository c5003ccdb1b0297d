"""Datasets as they lie on disk, compiled to one manifest; nothing downstream knows which layout it was.

Each layout module yields a `listing.Listing`; `fewshot` draws from it; `manifest` writes what a run uses.
"""
