"""Finetuning: what is trained (`tuners`) x which loss (`losses`) x which texts (a soup), and the loop (`train`).

`forward` holds the differentiable towers, `tuned` the finished thing and its files, `data` the few-shot batches.
"""
