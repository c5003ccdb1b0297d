"""A web server on this machine that answers as it is told to, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Web:
    """The server.

    Attributes:
        url: its address, without a slash at the end.
        asked: ``GET /path`` of each request, as it was sent.
        files: bytes by path.
        answers: a function that answers GET at a path, after which nothing else is sent.
        n_sent: bytes that `endless` sent.
    """

    url: str = ""
    asked: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    n_sent: int = 0

    def endless(self, chunk: bytes, *, most: int, headers: dict[str, str], status: int = 200) -> Answer:
        """An answer of `chunk` again and again, up to `most` bytes, under headers of one's own."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            sent = 0
            try:
                while sent < most:
                    handler.wfile.write(chunk)
                    sent += len(chunk)
                    self.n_sent += len(chunk)
            except OSError:  # whoever asked has had enough
                return

        return answer


@contextmanager
def serving() -> Iterator[Web]:
    """A server in a thread of its own."""
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            web.asked.append(f"{self.command} {self.path}")
            if self.path in web.answers:
                if self.command == "GET":
                    web.answers[self.path](self)
                else:
                    self.send_response(200)
                    self.end_headers()
                return
            body = web.files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
