"""One function for each kind of soup, on the candidates that `rank` has ordered."""
