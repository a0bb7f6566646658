"""The command line as a process: ``rb-interp``, ``python -m rb_interp``."""

import sys

from rb_interp.cli import main

if __name__ == "__main__":
    sys.exit(main())
