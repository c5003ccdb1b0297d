"""The code of every stage -> artifacts/code.yaml: a digest of what it means, which dvc.yaml has among their params.

A changed comment changes no digest, so DVC runs this stage and no other. It runs first and after every edit of
params.yaml, so it reads all of it: a bad value is refused before DVC removes any out.
"""

import sys
from pathlib import Path

from wsoup.disk import code
from wsoup.disk.atomic import write_bytes
from wsoup.disk.cache_folder import make_cache_dir
from wsoup.pipeline import code_file
from wsoup.pipeline.code_file import CODE, as_yaml, check_tree
from wsoup.pipeline.installed import check_is_of_this_wsoup
from wsoup.pipeline.params import load_params
from wsoup.runtime.ending import errors_in_one_line


def main(script: Path) -> None:
    """Write artifacts/code.yaml for the scripts beside this one and the wsoup that they import."""
    check_tree(script)
    check_is_of_this_wsoup(script.parents[1])
    load_params()
    digests = code_file.digests(script.parent)
    make_cache_dir()
    code.keep_parsed()
    write_bytes(CODE, as_yaml(digests))
    print(f"{CODE}: {len(digests)} stages")


if __name__ == "__main__":
    with errors_in_one_line():
        main(Path(sys.argv[0]).resolve())
