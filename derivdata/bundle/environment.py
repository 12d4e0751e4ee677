"""What computes here, and how that differs from what computed when a bundle was made."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from derivdata.bundle.layout import Manifest

__all__ = ["differences", "python", "system", "versions"]

_NUMERIC = ("derivdata", "matplotlib", "msgspec", "numpy", "pandas", "pyarrow", "requests", "scipy", "xarray")


def versions() -> dict[str, str]:
    """Versions of the library and of what its numbers depend on."""
    found: dict[str, str] = {}
    for name in _NUMERIC:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def python() -> str:
    """Version of the interpreter."""
    return platform.python_version()


def system() -> str:
    """Operating system and processor."""
    return f"{platform.system()} {platform.machine()}"


def differences(manifest: Manifest) -> tuple[str, ...]:
    """What differs between here and there, as ``"numpy 2.4.1 then, 2.5.0 now"``; empty where nothing does."""
    then = {"platform": manifest.platform, "python": manifest.python, **manifest.versions}
    now = {"platform": system(), "python": python(), **versions()}
    names = sorted({*then, *now})
    return tuple(
        f"{name} {then.get(name, 'absent')} then, {now.get(name, 'absent')} now"
        for name in names
        if then.get(name) != now.get(name)
    )
