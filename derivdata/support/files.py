"""Files that the library writes: atomic, private, never through a link; and CSV without formulas.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula, which may send the
content of the sheet to an address. Names in a table come from venues. Such a text gets a leading apostrophe,
which marks text in a spreadsheet, and an import removes it again. Numbers do not change.

References
----------
OWASP, "CSV Injection", https://owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

TEMPORARY = ".tmp-"
"""Prefix of the names of files that are being written."""


def private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, accessible to this user only."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def replace_file(
    path: Path, data: bytes, *, mode: int = 0o600, times_ns: tuple[int, int] | None = None
) -> None:
    """Replace a file atomically: readers see the old content or the new, also after a crash.

    `mode` has the permissions, minus the process's umask. `times_ns` sets the times of access and change
    [ns]. The bytes are written without a buffer to a temporary file in the same folder: a process forked
    meanwhile would inherit a buffer and write it a second time. The name is generated before the file is
    made, so that the file is removed after an interrupt at any point.
    """
    temporary = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb", buffering=0, opener=_private) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            if mode != 0o600 and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode & ~_umask())
        if times_ns is not None:
            os.utime(temporary, ns=times_ns)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _private(path: str, flags: int) -> int:
    """Open a file for this user only, and not through a symbolic link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def _umask() -> int:
    mask = os.umask(0o077)  # the umask can only be read by setting it
    os.umask(mask)
    return mask


def file_system_time(folder: Path) -> float:
    """Return the file system's own time, so that ages of files do not depend on the machine's clock."""
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
    os.close(handle)
    try:
        return Path(name).stat().st_mtime
    finally:
        Path(name).unlink()


def package_digest(*names: str) -> str:
    """Return a hash of modules and folders of this package, which identifies the version of results."""
    package = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        paths = [package / f"{name}.py"]
        if not paths[0].is_file():
            paths = sorted((package / name).rglob("*.*"))
        for path in paths:
            if path.suffix != ".pyc":
                digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return digest.hexdigest()


_SIGNS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""First characters of formulas, by OWASP's page on CSV injection: also their full-width forms."""
_FORMULA = re.compile(f"'*[{_SIGNS}]")
_NEUTRAL = re.compile(f"'+[{_SIGNS}]")
_QUOTED_OR_END = re.compile(r'("(?:[^"]|"")*")|\r\n')
"""Cells in quotes, which may have line breaks, or the end of a line."""


def csv_text(frame: pd.DataFrame, *, formulas: bool = False) -> str:
    """Return a table as CSV; with `formulas`, texts that begin like a formula are not marked."""
    shown = frame
    if not formulas:
        shown = _neutral(frame)
    text: str = shown.to_csv(index=False, lineterminator="\n")
    if "\r" in text:
        # Python's csv module (3.12) quotes a carriage return only where lines end with one. Quoting all texts
        # would quote missing numbers as well.
        text = shown.to_csv(index=False, lineterminator="\r\n")
        text = _QUOTED_OR_END.sub(lambda match: match[1] or "\n", text)
    return text


def original_cell(text: str) -> str:
    """Return a cell as it was before `csv_text` marked it as text."""
    if _NEUTRAL.match(text):
        return text[1:]
    return text


def original_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as it was before `csv_text` marked some texts."""
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    return pc.replace_substring_regex(column, f"^'('*[{_SIGNS}])", r"\1")


def _neutral(frame: pd.DataFrame) -> pd.DataFrame:
    """Mark texts and names of columns that begin like a formula."""
    changed = {}
    for name in frame.columns:
        values = frame[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            words = list(map(_marked, values.cat.categories))
            if words != list(values.cat.categories):
                changed[name] = values.cat.rename_categories(words)
        elif values.dtype.kind == "O" or isinstance(values.dtype, pd.StringDtype):
            marked = values.map(_marked, na_action="ignore")
            if not marked.equals(values):
                changed[name] = marked
    if changed:
        frame = frame.assign(**changed)
    return frame.rename(columns=_marked)


def _marked(value: Any) -> Any:
    if isinstance(value, str) and _FORMULA.match(value):
        return f"'{value}"
    return value
