"""``python -m inline CODE ARGUMENTS``, for `processes.run_code`: what ``python -c CODE ARGUMENTS`` runs."""

import sys

if __name__ == "__main__":
    del sys.argv[0]
    exec(compile(sys.argv[0], "<code of a test>", "exec"), {"__name__": "__main__"})
