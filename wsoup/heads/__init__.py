"""Heads: closed-form classifiers of image features, from a few labelled images and the class texts of a soup."""
