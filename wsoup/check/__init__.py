"""What is looked at before a run: params, data and encoder."""
