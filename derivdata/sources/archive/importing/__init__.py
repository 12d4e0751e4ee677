"""Import recorded files into an archive: recognise, check, show and store their rows."""

from derivdata.sources.archive.importing.declared_layouts import listing
from derivdata.sources.archive.importing.importer import Imported, import_files
from derivdata.sources.archive.importing.plan import Unclear

__all__ = ["Imported", "Unclear", "import_files", "listing"]
__dir__ = __all__.copy
