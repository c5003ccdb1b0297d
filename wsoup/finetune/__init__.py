"""Finetuning: what is trained (`tuners`) x which loss (`losses`) x which texts (a soup), and the loop (`train`).

`towers` are open_clip's towers cut open for training, `data` the few-shot batches, `tuned` the results on disk.
"""
