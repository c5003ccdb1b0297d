"""What a reader opens: the page of a run, its figures and pictures."""
