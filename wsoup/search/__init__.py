"""What is searched, on what it is judged, and the algorithms: pools, the source, soups."""
