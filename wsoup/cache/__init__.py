"""What lies in the cache folder: `look` judges it, `prune` removes what is of no use, `show` draws it."""
