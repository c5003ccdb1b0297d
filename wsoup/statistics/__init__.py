"""Whether a difference between two classifiers is more than noise."""
