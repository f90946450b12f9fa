"""The socket of a connection: reads and writes clear bytes, with or without TLS, and closes.

Runs on the event loop.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from tallyveil.events import report
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.admission.tls import Channel

__all__ = ["IDLE_LOOKS", "ClientSocket"]

IDLE_LOOKS: Final = 10
"""How many times per idle timeout the server checks whether a connection is idle."""


class ClientSocket:
    """``receive`` accepts bytes from the network and passes them, decrypted, to ``reader``.

    The owner sets ``received`` when bytes arrive.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        limits: ServerLimits,
        reader: Callable[[bytes], None],
    ) -> None:
        self.transport: Final = transport
        self.address: Final = _address(transport)
        self.receive: Callable[[bytes], None] = reader
        self.write: Callable[[bytes], None] = transport.write
        self.received = False
        self._looks = 0
        self._reader: Final = reader
        self._loop: Final = loop
        self._limits: Final = limits
        self._channel: Channel | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        transport.set_write_buffer_limits(high=limits.write_ahead)

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self._channel is not None

    @property
    def ended(self) -> bool:
        """Whether the client has ended its TLS stream, so that it sends nothing more."""
        return self._channel is not None and self._channel.ended

    def encrypt(self, channel: Channel) -> None:
        """Send and receive all bytes through TLS from now on."""
        self._channel = channel
        self.receive = partial(self._decrypt, channel)
        self.write = partial(self._encrypt, channel)

    def idle(self, *, busy: bool) -> bool:
        """Whether nothing has arrived for more than `IDLE_LOOKS` calls. A call while the server is
        ``busy`` for the client starts the count again.
        """
        if self.received or busy:
            self.received, self._looks = False, 0
            return False
        self._looks += 1
        return self._looks > IDLE_LOOKS

    def close(self) -> None:
        """Close once the rest is written; a client that does not read it in time is cut off."""
        if self.transport.is_closing():
            return
        if self._channel is not None:
            self._channel.finish()
            self._flush(self._channel)
        self.transport.close()
        timeout = self._limits.close_timeout
        self._closing = self._loop.call_later(timeout, self.transport.abort)

    def lost(self) -> None:
        """The socket is closed: stop the timers."""
        self.flowing()
        if self._closing is not None:
            self._closing.cancel()

    def stalled(self, give_up: Callable[[], None]) -> None:
        """The client must read before more can be written. Call ``give_up`` after a timeout."""
        self._stalled = self._loop.call_later(self._limits.send_timeout, give_up)

    def flowing(self) -> None:
        """The client reads again: stop the timeout."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _encrypt(self, channel: Channel, data: bytes) -> None:
        if not self.transport.is_closing():  # TLS has ended by then, too
            channel.send(data)
            self._flush(channel)

    def _decrypt(self, channel: Channel, data: bytes) -> None:
        try:
            decrypted = channel.receive(data)
        except ssl.SSLError as error:
            # OpenSSL's name for the error, and nothing of what the client sent.
            report("TLS failed", address=self.address, reason=error.reason or error.strerror)
            self._flush(channel)
            self.close()
            return
        self._flush(channel)
        self._reader(decrypted)

    def _flush(self, channel: Channel) -> None:
        pending = channel.pending()
        if pending:
            self.transport.write(pending)


def _address(transport: asyncio.Transport) -> str:
    """The client's address without its port; empty if it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
