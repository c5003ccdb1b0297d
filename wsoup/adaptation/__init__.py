"""Adapt a soup's classifier to unlabelled images, or keep the zero-shot one where that is safer."""
