"""What is wrong, strings, named draws, and the mathematics on tensors; nothing here knows a file."""
