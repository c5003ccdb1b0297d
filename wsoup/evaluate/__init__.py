"""From soups and models to counts: the rows of the tables, their texts, and how many images each gets right."""
