"""One body for every request: ``python -m benchmarks.serving FILE`` prints its port and responses."""

from __future__ import annotations

import gzip
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["serve_bytes"]


def serve_bytes(body: bytes) -> None:
    """Print a port and return a body for every request there, gzipped for clients that accept it."""
    packed = gzip.compress(body, 1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one write

        def do_GET(self) -> None:
            zipped = "gzip" in self.headers.get("Accept-Encoding", "") and "plain" not in self.path
            data = packed if zipped else body
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if zipped:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve_bytes(Path(sys.argv[1]).read_bytes())
