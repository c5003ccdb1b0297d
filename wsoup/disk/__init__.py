"""Everything on disk: atomic writes, checksums, Zarr, Parquet, JSON, paths."""
