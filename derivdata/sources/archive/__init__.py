"""Store tables as partitioned Parquet, read them in memory or with dask, and import recorded files.

An archive is one folder. ``archive.json`` lists every live file; the files are under ``<table>/<month or
day>/``. Data files never change. A change adds files and then replaces the manifest atomically, so a reader
sees the state before or after it, and a killed writer leaves the previous state.
"""

from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.importing import import_files

__all__ = ["Archive", "import_files", "open_archive"]
__dir__ = __all__.copy
