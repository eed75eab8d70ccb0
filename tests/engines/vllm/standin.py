"""A server that answers a script: what vLLM's control endpoints say, good and bad."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kvantage.core import Server
from tests.engines.vllm.data import arm


class Standin:
    """`answers[path]` is a list of (status, body); the last one is given again and again."""

    def __init__(self, answers: dict[str, list[tuple[int, Any]]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any]] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        self.asked.append((method, path, body))
        left = self.answers.get(path.partition("?")[0])
        if not left:
            return 404, b'{"detail":"Not Found"}'
        status, told = left.pop(0) if len(left) > 1 else left[0]
        return status, told.encode() if isinstance(told, str) else json.dumps(told).encode()


class Process:
    """A process as the engine sees it."""

    def __init__(self, log: Path, status: int | None = None) -> None:
        self.log_path = log
        self.pid = 1
        self.status = status

    def exit_code(self) -> int | None:
        return self.status

    def log_lines(self, start: int = 0) -> list[str]:
        return self.log_path.read_text().split("\n") if self.log_path.exists() else []

    async def stop(self, grace_s: float = 20.0) -> int:
        return 0


@contextmanager
def serving(
    answers: dict[str, list[tuple[int, Any]]], process: Process | None = None
) -> Iterator[tuple[Server, Standin]]:
    """A server of the arm `one`, and what it was asked."""
    standin = Standin(answers)

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply("GET", None)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.reply("POST", json.loads(data) if data else None)

        def reply(self, method: str, body: Any) -> None:
            status, told = standin.answer(method, self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_words: Any) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield Server(arm(), f"http://127.0.0.1:{http.server_address[1]}", "one", None, process), standin
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
