"""params.yaml to begin with: what `wsoup profile` prints, and what of the paper it covers."""
