"""params.yaml to begin with: the toy world, the paper, your own photos."""
