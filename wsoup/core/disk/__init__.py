"""Everything on disk: atomic writes, checksums, Zarr, Parquet, JSON, where files lie, URLs."""
