"""What every stage builds on: errors, strings, named draws, mathematics on tensors; `disk` and `params` inside it."""
