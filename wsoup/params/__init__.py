"""How params.yaml is read, and the sections that several stages share."""
