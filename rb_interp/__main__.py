"""``python -m rb_interp``: the command line."""

import sys

from rb_interp.cli import main

sys.exit(main())
