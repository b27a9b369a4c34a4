"""One request and its answer on the wire: the journal, faults on order, refusals, byte ranges."""

import json
import re
import socket
import struct
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from loopback_hub.answers import NO_AGENTS
from loopback_hub.faults import Fault
from loopback_hub.journal import Entry

if TYPE_CHECKING:
    from loopback_hub.hub import Hub

CHATTER = "/api/agent-harnesses"  # asked once a process by huggingface_hub, of no interest to tests
CHUNK = 1 << 20
CORRUPTED = 16  # bytes at the start of a body that a ``corrupt`` fault inverts


class Refusal(Exception):
    """An answer that is an error of the protocol."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Message": message, "Content-Type": "application/json"}
        if code:
            self.headers["X-Error-Code"] = code
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}


class Exchange(BaseHTTPRequestHandler):
    """One request: a subclass routes it and calls ``answer`` or raises a ``Refusal``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: "Hub"  # set by the server before the first request

    def route(self) -> None:
        raise NotImplementedError

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing to the console: the journal has it."""

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault: Fault | None = None
        self.entry = self._new_entry()
        if self.path.startswith(CHATTER):
            return self._send(200, json.dumps(NO_AGENTS).encode(), {})
        self.fault = fault = self.hub.take_fault(self.command, self.path)
        if fault is not None:
            time.sleep(fault.delay)
            if fault.before_any_answer:
                self.hub.journal.add(self.entry)
                return self._hang_up(reset=True)
            if fault.status is not None:
                return self.answer(fault.status, b"this fault was ordered", dict(fault.headers))
        try:
            self.route()
        except Refusal as refusal:
            body = json.dumps({"error": str(refusal)}).encode()
            self.answer(refusal.status, body, refusal.headers)

    def _new_entry(self) -> Entry:
        return Entry(
            method=self.command,
            path=self.path,
            range=self.headers.get("Range"),
            authorized="Authorization" in self.headers,
            agent=self.headers.get("User-Agent", ""),
        )

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Note the answer in the journal, then send it as the fault on order has it."""
        fault = self.fault if status < 300 and self.command != "HEAD" else None
        part = body
        if fault is not None and fault.corrupt:
            part = bytes(byte ^ 0xFF for byte in body[:CORRUPTED]) + body[CORRUPTED:]
        if fault is not None and fault.cut_after is not None:
            part = body[: fault.cut_after]
        self.entry.status = status
        self.entry.sent = 0 if self.command == "HEAD" else len(part)
        self.hub.journal.add(self.entry)
        self._send(status, part, {"Content-Length": str(len(body)), **headers})
        if fault is not None and fault.cut_after is not None:
            self._hang_up(reset=fault.reset)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = 0
        try:
            for sent in range(0, len(body), CHUNK):
                self.wfile.write(body[sent : sent + CHUNK])
        except OSError:  # the client has read enough
            self.entry.sent = sent
            self.close_connection = True

    def _hang_up(self, *, reset: bool) -> None:
        self.close_connection = True
        if reset:  # a zero linger time turns the close into a reset
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        with suppress(OSError):
            self.connection.close()

    def answer_json(self, value: Any, **headers: str) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | headers)


def byte_span(header: str | None, size: int) -> range | None:
    """The bytes that a Range header asks for: None for all, empty where it can not be met."""
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    return range(int(first), min(int(last) + 1, size) if last else size)
