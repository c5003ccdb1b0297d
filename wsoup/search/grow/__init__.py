"""One function for each kind of soup, given the ranking that `rank` made."""
