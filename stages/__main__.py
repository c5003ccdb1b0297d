"""Run a stage: ``python stages score words`` in the folder of params.yaml. Under DVC, ``python stages score``.

Python always puts a folder that it runs on its path. Of ``python -m stages.score`` it would search the current folder,
which it does not where PYTHONSAFEPATH is set.
"""

import gc
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Run the stage that the command line names, as Python's ``-m`` would: a decoding worker imports it by its name."""
    stages = Path(__file__).absolute().parent
    # `wsoup` and `stages` lie beside this folder, not in it.
    sys.path[0] = str(stages.parent)
    from wsoup.runtime.ending import leave_at_once
    from wsoup.runtime.forked import run_there
    from wsoup.runtime.memory import keep_memory

    leave_at_once()
    keep_memory()
    status = run_there()
    if status is not None:
        raise SystemExit(status)
    names = sorted(path.stem for path in stages.glob("[a-z]*.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        print(f"error: name a stage: python stages {{{','.join(names)}}} [item]", file=sys.stderr)
        raise SystemExit(2)
    name = sys.argv.pop(1)
    # Imports make no garbage, and collecting takes a sixth of their time. Collection begins again with the work.
    gc.disable()
    runpy.run_module(f"stages.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
