"""An S3 server of moto in this process, whose conditional puts are atomic as S3's are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def s3_server() -> Iterator[str]:
    """Serve empty stores on a free port and yield the address."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    application = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def one_at_a_time(environ: Any, start: Any) -> Any:
        """moto checks a condition and then stores, so two threads could interleave; S3 is atomic."""
        with lock:
            return list(application(environ, start))

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as those of a real store

        def log(self, *_: Any, **__: Any) -> None:
            pass

    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True, request_handler=Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(address: str) -> dict[str, str]:
    """Return the variables by which botocore finds the server."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }
