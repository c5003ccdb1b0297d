"""What every stage reads: how a section is checked, and the sections `encoder`, `embed`, `datasets` and `fewshot`."""
