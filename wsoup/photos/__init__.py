"""What one folder of photos should use: a trial, answers, what is written, adaptation without labels."""
