"""Lists of images in any kind of file: the one reader of CSV, TSV and Parquet."""

from pathlib import Path

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.cells import Cells, read_text_cells

SUFFIXES = (".csv", ".tsv", ".parquet")


def is_list(place: str) -> bool:
    """Whether a file is a list, by its ending."""
    return Path(place).suffix.lower() in SUFFIXES


def read_cells(path: Path) -> Cells:
    """Read a list.

    Raises:
        MissingError: no such file.
        DataError: another kind of file, no header or no rows, a column that is missing or there twice, a row longer
            than the header, or a file that is damaged or would unpack to too much.
    """
    if not path.is_file():
        raise MissingError(f"{path} does not exist; name a list of images")
    if not is_list(str(path)):
        raise DataError(f"{path}: expected a .csv, .tsv or .parquet file")
    if path.suffix.lower() == ".parquet":
        # Imported here, since only this needs pyarrow, which `wsoup classify` can do without.
        from wsoup.datasets.parquet_lists import read_parquet

        return read_parquet(path)
    return read_text_cells(path)
