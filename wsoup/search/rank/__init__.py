"""What selection may see, and the ranking of all candidates, which does not depend on the kinds of soup."""
