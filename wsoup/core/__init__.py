"""What every stage rests on: errors, strings, named draws, mathematics on tensors; in folders, disk and params."""
