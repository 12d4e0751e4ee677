"""Complete the list of software that cyclonedx-py makes of an environment: version and hashes of the lock.

The tool reads the dependency graph and the licences of the installed packages. It does not read a version
that the build backend computes, nor the lock. Run by ``make sbom``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([\w.-]+)==(\S+)\s*(?:;.*)?\\$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def locked_hashes(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the SHA-256 of every file of a lock, by name and version."""
    hashes: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if pin := _PIN.match(line.strip()):
            current = hashes.setdefault((_plain(pin[1]), pin[2]), [])
        elif found := _HASH.search(line):
            current.append(found[1])
    return hashes


def complete(document: dict[str, Any], version: str, lock: str) -> dict[str, Any]:
    """Return the document with the version of the root and the hashes of its parts."""
    root = document["metadata"]["component"]
    root |= {"version": version, "purl": f"pkg:pypi/{root['name']}@{version}"}
    hashes = locked_hashes(lock)
    for part in document["components"]:
        files = hashes[_plain(part["name"]), part["version"]]
        part.setdefault("externalReferences", []).append(
            {
                "type": "distribution",
                "url": f"https://pypi.org/simple/{_plain(part['name'])}/",
                "hashes": [{"alg": "SHA-256", "content": content} for content in files],
            }
        )
    return document


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(path: Path) -> None:
    """Complete the document in a file."""
    source = (ROOT / "derivdata" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if version is None:
        raise SystemExit("derivdata/__init__.py states no __version__")
    lock = (ROOT / "requirements" / "base.txt").read_text(encoding="utf-8")
    document = complete(json.loads(path.read_text(encoding="utf-8")), version[1], lock)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
