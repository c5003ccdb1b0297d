"""The only importer of open_clip: a model, its configuration, its preprocessing and its identity."""
