"""Published data sets under open licences: fetched once, checked by hash, and imported as tables.

``datasets.toml`` next to this module has for each set the address of its files at one commit, their hashes
and the options of their import. The files and the archive made from them are under ``datasets`` in the cache
folder (``DERIVDATA_CACHE_DIR``); later calls need no network.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.client.transport.adapter import KeylessSession
from derivdata.client.transport.cache import cache_folder
from derivdata.errors import NetworkError
from derivdata.sources.archive import import_files, open_archive
from derivdata.support.arguments import typed
from derivdata.support.files import private_folder, replace_file
from derivdata.support.text import did_you_mean, warn_caller

__all__ = ["load"]
__dir__ = __all__.copy


@typed
def load(name: str | None = None) -> pd.DataFrame:
    """Return a recorded data set as a table of the library, or a list of the available data sets.

    Parameters
    ----------
    name
        Name of the set, such as ``"funding_2020_2023"``; None lists all sets.

    Returns
    -------
    DataFrame
        The table of the set, with its units and times in UTC; the provenance names the source and its
        licence. A `DataNotice` lists the limits of the files. The list is indexed by name and has the columns
        ``table``, ``holds`` (the content), ``units``, ``licence``, ``source``, ``certain`` (the checks that
        its addresses passed) and ``bytes`` (the size of its files).

    Raises
    ------
    ValueError
        There is no set with this name.
    NetworkError
        A file could not be fetched, or its SHA-256 is not the expected one. The message gives its address and
        the path where it can be saved manually.

    Notes
    -----
    The first call fetches the files, one request each, and imports them like ``derivdata import``; later ones
    send no request. Files with another SHA-256 are never used. Check the licence before you redistribute
    data.
    """
    registry = _registry()
    if name is None:
        listed = pd.DataFrame.from_dict(registry, orient="index").rename_axis("name")
        sizes = [sum(f["bytes"] for section in parts for f in section["files"]) for parts in listed["parts"]]
        return listed[["table", "holds", "units", "licence", "source", "certain"]].assign(bytes=sizes)
    if name not in registry:
        raise ValueError(
            f"name must be one of {', '.join(registry)}, got {name!r}{did_you_mean(name, registry)}"
        )
    dataset = registry[name]
    folder = cache_folder() / "datasets"
    recipe = hashlib.sha256(json.dumps(dataset).encode()).hexdigest()[:12]
    private_folder(folder / "files")
    archive = folder / f"{name}-{recipe}"
    if not archive.is_dir():
        _make(dataset, folder, archive)
    frame = open_archive(archive).read(dataset["table"])
    credit = f"data: {dataset['source']}; licence: {dataset['licence']}"
    notices = dataset.get("notices", [])
    for notice in notices:
        warn_caller(f"{name}: {notice}")
    frame.attrs["provenance"] |= {"source": name, "attribution": credit, "notices": notices}
    return frame


@functools.cache
def _registry() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _make(dataset: dict[str, Any], folder: Path, archive: Path) -> None:
    """Import the files into a folder that replaces the archive when it is complete."""
    how = {"map": dataset["map"], "unit": dataset.get("unit")}
    paths = [
        [_fetched(dataset["url"], f, folder / "files") for f in section["files"]]
        for section in dataset["parts"]
    ]
    with tempfile.TemporaryDirectory(dir=folder) as made:
        whole = Path(made) / "archive"
        for section, files in zip(dataset["parts"], paths, strict=True):
            import_files(dataset["table"], files, whole, set=section.get("set"), tz=section.get("tz"), **how)
        try:
            whole.rename(archive)
        except OSError:
            if not archive.is_dir():  # otherwise another process was first
                raise


def _fetched(base: str, file: dict[str, Any], folder: Path) -> Path:
    """Return the path of a file with the recorded hash, fetched if missing."""
    url = base + file["path"]
    wanted = file["sha256"]
    path = folder / f"{wanted[:12]}-{Path(file['path']).name}"
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
        return path
    try:
        with closing(KeylessSession()) as session:
            reply = session.send("GET", url, {})
        why = "" if reply.status == 200 else f"HTTP {reply.status} from {url}"
    except NetworkError as problem:
        why = f"{str(problem).partition(': ')[2]}; the address is {url}"
    if not why and hashlib.sha256(reply.body).hexdigest() != wanted:
        why = (
            f"received {len(reply.body):,} bytes from {url}, expected {file['bytes']:,} bytes with SHA-256 "
            f"{wanted}"
        )
    if why:
        raise NetworkError(file["path"], f"{why}; try again, or save the file manually as {path}")
    replace_file(path, reply.body)
    return path
