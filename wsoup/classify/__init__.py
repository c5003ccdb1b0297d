"""New photos and a soup -> class names with probabilities: what `wsoup classify` does."""
