"""Image files to upright RGB (`decode`), and to features that survive a kill (`features`)."""
