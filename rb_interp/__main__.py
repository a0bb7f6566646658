"""The command line as a process (``rb-interp``, ``python -m rb_interp``): signals are handled before it is imported."""

import sys

from rb_interp.signals import say, stopped_by_signals


def main() -> int:
    """Run the command of ``sys.argv``; returns its exit status, see `rb_interp.cli.main`."""
    with stopped_by_signals(to_the_end=True) as come:
        try:
            from rb_interp import cli

            return cli.main()
        except BaseException:  # where imports run, a signal may come out as another error than it went in
            if not come:
                raise
            say("rb-interp: stopped; the same command goes on from what is saved.")
            return 128 + come[0]


if __name__ == "__main__":
    sys.exit(main())
