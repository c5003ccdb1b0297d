"""What the paper studies beside its tables: accuracy during training, transfer, the upper bound, the loss landscape."""
