"""From soups and models to counts: which rows there are, their texts, and what each gets right."""
