"""Heads: closed-form classifiers on image features, from a few labelled photos and the class texts of a soup."""
