"""Tables to partitioned Parquet and back, in memory or as dask; recorded files on their way in.

An archive is one folder. ``archive.json`` names every file that counts; the files lie under
``<table>/<month or day>/``. Files are never changed once written: a change adds files and then replaces
the manifest in one step, so that a reader sees the state before or after it and a writer that was killed
leaves the state before.
"""

from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.importing import import_files

__all__ = ["Archive", "import_files", "open_archive"]
__dir__ = __all__.copy
