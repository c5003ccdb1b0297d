"""What every stage builds on: strings, named draws, mathematics on tensors; no files."""
