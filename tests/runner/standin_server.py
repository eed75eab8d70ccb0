"""A stand-in for a serving engine, for tests of what the runner does when things go wrong.

It is no model: it writes words at a set pace, remembers prompts (its 'prefix cache'), counts, and fails
on demand. Settings come as JSON in argv[2]; `die_at`, `error_at`, `empty_at` are request numbers from 1.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SETTINGS: dict[str, Any] = {
    "tokens_per_step": 1,
    "step_s": 0.002,
    "pool_tokens": 100_000,
    "die_at": 0,
    "error_at": 0,
    "empty_at": 0,
    "refuse_images": True,
    "boot_s": 0.0,
    "drafts_move": True,
}
LOCK = threading.Lock()
COUNTERS = {"requests": 0, "prompt_tokens": 0, "generation_tokens": 0, "drafts": 0, "accepted": 0}
CACHE: dict[str, int] = {}


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        return None

    def _refused(self) -> bool:
        key = SETTINGS.get("key")
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return False
        self._json({"error": "no key"}, 401)
        return True

    def do_GET(self) -> None:
        if self._refused():
            return
        models = {"object": "list", "data": [{"id": SETTINGS.get("name", "standin")}]}
        answers = {
            "/health": {"ok": True},
            "/counters": COUNTERS,
            "/facts": SETTINGS,
            "/v1/models": models,
        }
        self._json(answers.get(self.path, {}), 200 if self.path in answers else 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path not in ("/flush", "/v1/chat/completions"):
            self._json({}, 404)
            return
        if self._refused():
            return
        if self.path == "/flush":
            CACHE.clear()
            self._json({"flushed": True})
            return
        content = body["messages"][-1]["content"]
        if isinstance(content, list) and SETTINGS["refuse_images"]:
            self._json({"error": {"message": "this is not a multimodal model"}}, 400)
            return
        with LOCK:
            COUNTERS["requests"] += 1
            number = COUNTERS["requests"]
        text = json.dumps(body["messages"])
        prompt = len(text) // 4
        if not body.get("stream"):
            usage = {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"]}
            self._json({"choices": [{"message": {"content": "hello"}}], "usage": usage})
            return
        with LOCK:
            COUNTERS["prompt_tokens"] += prompt
            cached = CACHE.get(text, 0)
            CACHE[text] = prompt - prompt % 16
            while sum(CACHE.values()) > SETTINGS["pool_tokens"]:
                CACHE.pop(next(iter(CACHE)))
        self._stream(body, number, prompt, cached)

    def _stream(self, body: dict[str, Any], number: int, prompt: int, cached: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        asked = 0 if number == SETTINGS["empty_at"] else body["max_tokens"]
        written = steps = accepted = 0
        while written < asked:
            if number == SETTINGS["die_at"] and written >= asked // 2:
                print("RuntimeError: the stand-in was told to die", flush=True)
                os._exit(17)
            if number == SETTINGS["error_at"] and written >= asked // 2:
                self._event({"error": {"message": "the engine met a fault", "code": 500}})
                self._chunk(b"data: [DONE]\n\n")
                self._chunk(b"")
                return
            time.sleep(SETTINGS["step_s"])
            now = min(SETTINGS["tokens_per_step"] if written else 1, asked - written)
            delta = {"content": "".join(f"w{written + i} " for i in range(now))}
            self._event({"choices": [{"index": 0, "delta": delta, "token_ids": list(range(now))}]})
            steps += 1 if written else 0
            accepted += now - 1
            written += now
        with LOCK:
            COUNTERS["generation_tokens"] += written
            if SETTINGS["tokens_per_step"] > 1 and SETTINGS["drafts_move"]:
                COUNTERS["drafts"] += steps
                COUNTERS["accepted"] += accepted
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, data: object) -> None:
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, data: object, status: int = 200) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


def main() -> None:
    SETTINGS.update(json.loads(sys.argv[2]))
    for rank in sys.argv[3:]:
        print(f"rank {rank}", flush=True)
        if not rank.startswith("0"):  # a further machine of a group serves nothing itself
            time.sleep(SETTINGS.get("die_after_s", 3600))
            print("RuntimeError: rank 1 was told to die", flush=True)
            sys.exit(9)
    if SETTINGS.get("die_at_boot"):
        print("ValueError: the stand-in cannot load this model", flush=True)
        sys.exit(3)
    time.sleep(SETTINGS["boot_s"])
    server = Server(("127.0.0.1", int(sys.argv[1])), Front)
    print("stand-in serves", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
