"""Hands connections to a port within a sandbox on to a socket outside, for what begins there."""

from __future__ import annotations

import os
import socket
import sys
import threading


def main() -> None:
    """Begin to listen on a port, in a process of its own. Raises OSError."""
    path, port = sys.argv[1:]
    listening = socket.create_server(("127.0.0.1", int(port)))
    if os.fork():
        return
    os.closerange(0, listening.fileno())
    while True:
        near, _ = listening.accept()
        threading.Thread(target=_serve, args=(near, path), daemon=True).start()


def _serve(near: socket.socket, path: str) -> None:
    try:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(path)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
    except OSError:
        pass  # one of the two is gone


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
