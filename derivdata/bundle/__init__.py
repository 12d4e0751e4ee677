"""Record and replay: the answers behind a notebook or a report as one portable file.

A bundle is a zip of JSON. It holds each answer's raw body, status, headers that matter, request, server's
date and hash, and what computed with them; never a key, a host's credentials or anything pickled. The file is
`derivdata.client.bundle`'s; the tables that its answers make are made here, by the fetchers.
"""

from derivdata.bundle.difference import bundle_diff
from derivdata.client.bundle.reading import info, verify
from derivdata.client.bundle.recording import record
from derivdata.client.bundle.replaying import replay

__all__ = ["bundle_diff", "info", "record", "replay", "verify"]
__dir__ = __all__.copy
