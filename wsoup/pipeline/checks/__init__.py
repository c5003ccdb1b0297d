"""What would stop a run, found before it begins."""
