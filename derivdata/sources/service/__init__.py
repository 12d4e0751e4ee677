"""The documented API served from an archive or the sample."""

from derivdata.sources.service.application import app
from derivdata.sources.service.server import RunningService, open_store, serve, start
from derivdata.sources.service.store import Store

__all__ = ["RunningService", "Store", "app", "open_store", "serve", "start"]
