"""Recorded data of others whose licence allows its use: fetched once, checked by hash, read as our tables.

``datasets.toml`` beside this module has for each set the address of its files at one commit, their hashes
and how they are imported. The files and the archive made of them lie under ``datasets`` in the cache's
folder (``DERIVDATA_CACHE_DIR``): from then on no network is asked.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
import pandas as pd

from derivdata.client.transport.cache import cache_folder
from derivdata.client.transport.keyless import KeylessSession
from derivdata.errors import NetworkError
from derivdata.sources.archive import import_files, open_archive
from derivdata.support.arguments import typed
from derivdata.support.files import private_folder, replace_file
from derivdata.support.text import did_you_mean

__all__ = ["load"]
__dir__ = __all__.copy


class _File(msgspec.Struct):
    path: str
    bytes: int
    sha256: str


class _Part(msgspec.Struct):
    """Files that are imported in one way."""

    files: list[_File]
    set: dict[str, str] = {}
    tz: str | None = None


class _Dataset(msgspec.Struct):
    table: str
    holds: str
    units: str
    licence: str
    source: str
    certain: str  # what of the address could be compared with something
    url: str
    map: dict[str, str]
    parts: list[_Part]
    unit: str | None = None


@typed
def load(name: str | None = None) -> pd.DataFrame:
    """Return a recorded data set as one of the library's tables, or the list of those that there are.

    Parameters
    ----------
    name
        Which, such as ``"funding_2020_2023"``; None lists them.

    Returns
    -------
    DataFrame
        The table that the set is of, with its units and times in UTC; the provenance names the source and
        its licence. The list has a row per name: ``table``, what it ``holds``, its ``units``, ``licence``,
        ``source``, size in ``bytes``, and what of its addresses is ``certain``.

    Raises
    ------
    ValueError
        There is no set of this name.
    NetworkError
        A file could not be fetched, or is not the one that was recorded. The message has the address, and
        where to put the file by hand.

    Notes
    -----
    The first call fetches the files, one request each, and imports them like ``derivdata import``; later
    ones ask nothing. No file is used whose SHA-256 is another. Check the licence before you pass data on.
    """
    known = _registry()
    if name is None:
        told = ("table", "holds", "units", "licence", "source", "certain")
        rows = {key: {field: getattr(one, field) for field in told} for key, one in known.items()}
        sizes = {key: sum(f.bytes for part in one.parts for f in part.files) for key, one in known.items()}
        return pd.DataFrame.from_dict(rows, orient="index").assign(bytes=sizes).rename_axis("name")
    if name not in known:
        raise ValueError(f"{name=}: there are {', '.join(known)}{did_you_mean(name, known)}")
    dataset, folder = known[name], cache_folder() / "datasets"
    recipe = hashlib.sha256(msgspec.json.encode(dataset)).hexdigest()[:12]
    private_folder(folder / "files")
    archive = folder / f"{name}-{recipe}"
    if not archive.is_dir():
        _make(dataset, folder, archive)
    frame = open_archive(archive).read(dataset.table)
    credit = f"data: {dataset.source}; licence: {dataset.licence}"
    frame.attrs["provenance"] |= {"source": name, "attribution": credit}
    return frame


@functools.cache
def _registry() -> dict[str, _Dataset]:
    text = Path(__file__).with_suffix(".toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, _Dataset])


def _make(dataset: _Dataset, folder: Path, archive: Path) -> None:
    """Import the files into a folder that takes the archive's place when it is whole."""
    paths = [
        [_fetched(dataset.url + f.path, f, folder / "files") for f in part.files] for part in dataset.parts
    ]
    table, columns, unit = dataset.table, dataset.map, dataset.unit
    with tempfile.TemporaryDirectory(dir=folder) as made:
        whole = Path(made) / "archive"
        for part, files in zip(dataset.parts, paths, strict=True):
            import_files(table, files, whole, map=columns, set=part.set, tz=part.tz, unit=unit)
        with suppress(OSError):  # another process was first
            whole.rename(archive)


def _fetched(url: str, file: _File, folder: Path) -> Path:
    """Return the path of a file with the recorded hash, fetched if it is not there."""
    path = folder / f"{file.sha256[:12]}-{Path(file.path).name}"
    if path.is_file() and _is_same(path.read_bytes(), file):
        return path
    try:
        with KeylessSession() as session:
            reply = session.send("GET", url, {})
        why = "" if reply.status == 200 else f"HTTP {reply.status} from {url}"
    except NetworkError as problem:
        why = f"{str(problem).partition(': ')[2]}; the address is {url}"
    if not why and not _is_same(reply.body, file):
        why = f"{len(reply.body):,} bytes came from {url}, not the {file.bytes:,} with SHA-256 {file.sha256}"
    if why:
        raise NetworkError(file.path, f"{why}; try again, or save the file by hand as {path}")
    replace_file(path, reply.body)
    return path


def _is_same(content: bytes, file: _File) -> bool:
    return hashlib.sha256(content).hexdigest() == file.sha256
