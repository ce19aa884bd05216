"""The server: a socket on this machine, and the address with the token."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from fairprobe.errors import SettingError
from fairprobe.serve.app import application
from fairprobe.serve.settings import ServeSettings

HOST = "127.0.0.1"
PATIENCE = 2  # seconds that open pages may take when the server ends


class _Server(uvicorn.Server):
    """Says when it is up."""

    def __init__(self, config: uvicorn.Config, when_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_up = when_up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._when_up()


def serve(settings: ServeSettings, *, port: int, when_up: Callable[[str], None]) -> None:
    """Serve until an interrupt. `when_up` is given the address to open."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise SettingError(
            f"Port {port} cannot be used: {error}. Choose another with --port, or 0 for any."
        ) from error
    address = f"http://{HOST}:{listening.getsockname()[1]}/?token={settings.token}"
    app = application(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # the first address holds the token
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        lifespan="off",
    )
    with listening, app.state.desk.queue.running():
        _Server(config, lambda: when_up(address)).run(sockets=[listening])
