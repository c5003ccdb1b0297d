"""wsoup: descriptor soups and word soups for CLIP-style models (arXiv 2311.13612). Import the modules you need."""

__version__ = "0.1.0"
