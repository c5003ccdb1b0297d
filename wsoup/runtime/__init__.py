"""What a stage is when it runs: its command line (`stage`), its finished parts (`shards`)."""
