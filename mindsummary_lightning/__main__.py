"""Run the command ``mindsummary`` as ``python -m mindsummary_lightning``."""

from mindsummary_lightning.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
