"""The documented API served from an archive or the sample."""

from derivdata.sources.service.data.store import Store, open_store
from derivdata.sources.service.http.application import app
from derivdata.sources.service.server import RunningService, serve, start

__all__ = ["RunningService", "Store", "app", "open_store", "serve", "start"]
