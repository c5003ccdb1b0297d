"""Datasets on disk, compiled to one manifest; what follows does not know the layout.

Each layout is read into a `listing.Listing`; `fewshot` draws from it; `manifest` holds the images that a run uses.
"""
