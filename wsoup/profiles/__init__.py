"""params.yaml to begin with: what `wsoup profile demo`, `paper` and `own` print."""
