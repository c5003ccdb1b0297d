"""A pool: its list of texts on disk, their wording and its settings."""
