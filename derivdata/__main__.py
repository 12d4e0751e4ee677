"""``python -m derivdata``, the same as the console script."""

from __future__ import annotations

import sys

from derivdata.cli import main

if __name__ == "__main__":
    sys.exit(main())
