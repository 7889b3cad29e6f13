"""A name server of our own for one host and all below it. It can fall silent."""

import os
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field

ADDRESS = f"127.9.{os.getpid() % 256}.53"
"""Different in each run, so that two runs on one machine do not meet."""
PORT = 53
TYPE_A = 1
MOST_BYTES = 512


@dataclass(slots=True)
class Names:
    """Answers questions for `host` and all names below it with one IPv4 address; others do not exist (RFC 1035)."""

    host: str
    address: str
    is_silent: bool = False
    unanswered: int = 0
    """Questions that came while it was silent."""
    _socket: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

    def start(self) -> None:
        self._socket.bind((ADDRESS, PORT))
        threading.Thread(target=self._serve, name="names", daemon=True).start()

    def stop(self) -> None:
        self._socket.close()

    @property
    def configuration(self) -> str:
        return f"nameserver {ADDRESS}\noptions timeout:1 attempts:2\n"

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                question, client = self._socket.recvfrom(MOST_BYTES)
                if self.is_silent:
                    self.unanswered += 1
                else:
                    self._socket.sendto(answer(question, self.host, self.address), client)


def answer(question: bytes, host: str, address: str) -> bytes:
    """The answer to a message with one question. Additional records of it are left out."""
    name, end = _name(question)
    asked_type = struct.unpack(">H", question[end : end + 2])[0]
    is_ours = name == host or name.endswith(f".{host}")
    records = _record(address) if is_ours and asked_type == TYPE_A else b""
    flags = 0x8180 | (0 if is_ours else 3)  # recursion is there; NXDOMAIN
    head = question[:2] + struct.pack(">HHHHH", flags, 1, bool(records), 0, 0)
    return head + question[12 : end + 4] + records


def _name(question: bytes) -> tuple[str, int]:
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    return ".".join(labels), at + 1


def _record(address: str) -> bytes:
    return b"\xc0\x0c" + struct.pack(">HHIH", TYPE_A, 1, 0, 4) + socket.inet_aton(address)
