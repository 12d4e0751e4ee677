"""The default folder of collected data: the user's data folder, or ``DERIVDATA_DATA_DIR``."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

from derivdata.errors import ArchiveError

__all__ = ["data_folder"]


def data_folder() -> Path:
    """Return ``DERIVDATA_DATA_DIR``, or the library's folder for data of this user.

    Raises
    ------
    ArchiveError
        The user has no home folder, and the variable is not set.
    """
    given = os.environ.get("DERIVDATA_DATA_DIR")
    try:
        return (Path(given) if given else user_data_path("derivdata")).expanduser()
    except RuntimeError:
        raise ArchiveError(
            "this user has no home folder to keep the venues' answers in: name a folder, "
            'dd.connect("venues", archive=...), or set DERIVDATA_DATA_DIR'
        ) from None
