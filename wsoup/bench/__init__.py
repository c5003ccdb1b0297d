"""Will this machine do? Ours beside the plain way, in one run, on the same prompts, with random weights.

Text is timed in rounds: a sample of the prompts goes through `encode_text` at the full context, then a block of
candidates through `PromptEncoder` with every class, then the tower's own matrix products alone, which is the speed that
this machine could reach at best. The ratio is the median over the rounds, so that other work on the machine hits both
sides alike. Each function returns a dict of JSON values, and `common.table` shows one.
"""
