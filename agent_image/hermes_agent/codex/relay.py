"""The program's way to a model: an HTTP door on the sandbox's loopback whose other end is this process's stdin and stdout.

It runs in the sandbox, so it is standard library only and good for Python 3.8. One line of JSON each way: first the agent
says the token, and is told the port; then a request is `{"id", "body"}` and its answer `{"id", "status", "body"}`.
"""

from __future__ import annotations

import hmac
import http.server
import json
import os
import queue
import sys
import threading

MAX_BODY_BYTES = 8 * 1024 * 1024


class Switchboard:
    """Ties requests that wait to answers that come in."""

    def __init__(self, token: str) -> None:
        self.expected = ("Bearer " + token).encode()
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: dict[int, queue.SimpleQueue[tuple[int, str]]] = {}

    def ask(self, body: str) -> tuple[int, str]:
        """Hand a request to the agent; return status and body of its answer."""
        answers: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        with self._lock:
            self._count += 1
            number = self._count
            self._waiting[number] = answers
            say({"id": number, "body": body})
        return answers.get()

    def answer(self, number: int, status: int, body: str) -> None:
        """Give a waiting request its answer."""
        with self._lock:
            waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.put((status, body))


def say(value: dict[str, object]) -> None:
    """Write one line to the agent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def door_of(board: Switchboard) -> type[http.server.BaseHTTPRequestHandler]:
    """Return the handler of requests for one switchboard."""

    class Door(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Pass one model call on, if it shows the token."""
            shown = (self.headers.get("authorization") or "").encode("latin-1", "replace")
            length = self.headers.get("content-length") or ""
            if not hmac.compare_digest(shown, board.expected):
                self._reply(401, json.dumps({"error": {"message": "this door needs the token of the turn"}}))
            elif not length.isdigit() or int(length) > MAX_BODY_BYTES:
                self._reply(413, json.dumps({"error": {"message": "the request is too long"}}))
            else:
                self._reply(*board.ask(self.rfile.read(int(length)).decode("utf-8", "replace")))

        def do_GET(self) -> None:
            """Serve nothing: the program may look for a list of models."""
            self._reply(404, "{}")

        def _reply(self, status: int, body: str) -> None:
            data = body.encode("utf-8", "replace")
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
            """Say nothing: stderr is nobody's."""

    return Door


def main() -> None:
    """Serve until the agent goes."""
    board = Switchboard(json.loads(sys.stdin.readline())["token"])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), door_of(board))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say({"port": server.server_address[1]})
    for line in sys.stdin:
        value = json.loads(line)
        board.answer(value["id"], value["status"], value["body"])
    os._exit(0)


if __name__ == "__main__":
    main()
