"""The commands of `wsoup`."""
