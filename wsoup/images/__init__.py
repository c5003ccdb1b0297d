"""Image files to upright RGB (`decode`), and to features in resumable shards (`features`)."""
