"""The socket of a server.

It is opened before any weight is loaded, so that a taken port is told at once; who connects meanwhile waits. Must not
know: what is served. Tests: tests/cli/test_serve.py, tests/server/test_process.py.
"""

from __future__ import annotations

import errno
import socket

from saguaro.errors import ConfigError

BACKLOG = 1024
SEND_BUFFER = 1 << 17
"""Bytes that the system may keep for a client that does not read. By itself Linux keeps megabytes; what is held back
here instead is merged, so that a slow reader is given the news, and a thousand of them do not fill the memory.
"""


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the port is taken or not allowed, or the host is unknown.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"port {port} is outside 0 ... 65535.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(f"host {host!r} is no address of this machine: {error}.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # of its connections, too
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} of {host} is taken; stop what uses it or choose another --port.") from None
        raise ConfigError(f"port {port} of {host} cannot be used: {error}.") from None
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
