"""``python -m mindsummary_lightning``: the command ``mindsummary``."""

from mindsummary_lightning.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
