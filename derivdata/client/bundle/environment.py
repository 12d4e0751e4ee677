"""Versions of everything that computes here, compared with those that made a bundle."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from derivdata.client.bundle.layout import BundleManifest

__all__ = ["blas", "differences", "python", "system", "versions"]

_NUMERIC = ("derivdata", "matplotlib", "msgspec", "numpy", "pandas", "pyarrow", "requests", "scipy", "xarray")


def versions() -> dict[str, str]:
    """Return versions of the library and of what its numbers depend on, with the kernel of linear algebra."""
    by_name: dict[str, str] = {}
    for name in _NUMERIC:
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = "absent"
    by_name["BLAS kernel"] = blas()
    return by_name


def python() -> str:
    """Version of the interpreter."""
    return platform.python_version()


@lru_cache(maxsize=1)
def blas() -> str:
    """Return the kernel that does the linear algebra here: it alone decides the last bits of a fit.

    OpenBLAS picks one for the processor when it is loaded, so that the same versions on the same platform
    may differ: ``"OpenBLAS Haswell"``. Of another library the name is not known.
    """
    for package in ("numpy", "scipy"):
        spec = importlib.util.find_spec(package)
        for root in spec.submodule_search_locations or () if spec is not None else ():
            for folder in (Path(root).parent / f"{package}.libs", Path(root) / ".dylibs"):
                for library in sorted(folder.glob("*openblas*")):
                    if name := _core_name(library):
                        return f"OpenBLAS {name}"
    return "unknown"


def _core_name(library: Path) -> str | None:
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError:
        return None
    for prefix in ("scipy_", ""):
        for suffix in ("64_", ""):
            function = getattr(loaded, f"{prefix}openblas_get_corename{suffix}", None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode("ascii", "replace"))
    return None


def system() -> str:
    """Operating system and processor."""
    return f"{platform.system()} {platform.machine()}"


def differences(manifest: BundleManifest) -> tuple[str, ...]:
    """Return what differs between here and there, as ``"numpy 2.4.1 then, 2.5.0 now"``; empty for nothing."""
    then = {"platform": manifest.platform, "python": manifest.python, **manifest.versions}
    now = {"platform": system(), "python": python(), **versions()}
    then.setdefault("BLAS kernel", "unknown")  # not written down by version 0.1
    names = sorted({*then, *now})
    return tuple(
        f"{name} {then.get(name, 'absent')} then, {now.get(name, 'absent')} now"
        for name in names
        if then.get(name) != now.get(name)
    )
