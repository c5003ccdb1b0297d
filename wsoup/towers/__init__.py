"""The only importer of open_clip: a model, its configuration, preprocessing, identity and image features."""
