"""What is looked at before a run: params, data, encoder, and the paper's own search."""
