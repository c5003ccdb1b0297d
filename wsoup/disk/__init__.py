"""Everything on disk: atomic writes, shards, checksums, Parquet, JSON, paths."""
