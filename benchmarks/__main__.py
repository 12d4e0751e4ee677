"""``python -m benchmarks`` measures all and writes RESULTS.md; with options of pytest it only prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import results

_HERE = Path(__file__).parent
_PEER = {"PY_LETS_BE_RATIONAL_ENABLE_NUMBA": "1"}  # vollib's own switch, read when it is imported
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def main(options: list[str]) -> int:
    """Run the rows and print the findings."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        command = [sys.executable, "-m", "pytest", str(_HERE), f"--figures={file}", *options]
        code = subprocess.run(command, env=_environment(), cwd=_HERE.parent).returncode
        if code:
            return code
        found = json.loads(file.read_text())
    if options:
        print(results.table(found))
        return 0
    kept = _HERE / "RESULTS.md"
    kept.write_text(results.page(found, kept.read_text() if kept.exists() else ""))
    return 0


def _environment() -> dict[str, str]:
    """One thread for every library, and modules that are compiled once, as they are for everybody."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return given | dict.fromkeys(_THREADS, "1") | _PEER


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
