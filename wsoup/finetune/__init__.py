"""Finetuning: what is trained (`tuners`) x which loss (`losses`) x which texts (a soup), and the loop (`train`).

`image_tower` and `text_tower` are open_clip's towers cut open (`blocks`), `tuned` is the finished thing and its files,
`data` the few-shot batches.
"""
