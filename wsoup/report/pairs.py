"""Which row of the earlier revision a row of the later one is compared with."""

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.right import all_seeds
from wsoup.evaluate.row_key import RowKey
from wsoup.evaluate.rows import row_name
from wsoup.report.fed import every_row
from wsoup.report.revisions import Revision


def key_before(key: RowKey, *, before: Revision, after: Revision) -> RowKey:
    """The earlier revision's key of a row; what a run is about may have another name there."""
    if key == (PRETRAINED, all_seeds(after.record.soup)):
        return RowKey(PRETRAINED, all_seeds(before.record.soup))
    old = before.record.params
    method = old["report"].get("method")
    if method is not None and key.variant == after.record.params["report"].get("method"):
        return RowKey(method, row_name(old["finetune"]["methods"][method]["soup"]))
    return key


def renamed_keys(before: Revision, after: Revision) -> set[RowKey]:
    """Keys of rows that are compared with one of another name, because both runs are about them."""
    keys: set[RowKey] = set()
    for row in every_row(after.record):
        old = key_before(row.key, before=before, after=after)
        if old != row.key and old in before.counts and row.key in after.counts:
            keys |= {old, row.key}
    return keys
