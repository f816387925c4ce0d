"""Start of the scripted model: `python -m scripted_model --port 8646`, or role `scripted-model` of the gateway image."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack

import uvloop
from pydantic_settings import BaseSettings, SettingsConfigDict

from hermes_service.lifecycle import run
from hermes_service.logs import configure_logging, get_logger
from hermes_service.operations import Operations
from scripted_model.http_server import listen
from scripted_model.server import Server


class Settings(BaseSettings):
    """Variables named `HERMES_<FIELD>`; flags go before them."""

    model_config = SettingsConfigDict(env_prefix="HERMES_", extra="ignore", frozen=True)

    listen_host: str = "0.0.0.0"
    listen_port: int = 8646
    operations_host: str = "0.0.0.0"
    operations_port: int | None = None
    """Listener for metrics and health; none when not set, as the main port answers /livez and /readyz too."""
    log_level: str = "info"


async def serve(host: str, port: int, settings: Settings) -> None:
    """Serve until cancelled."""
    log = get_logger()
    async with AsyncExitStack() as stack:
        real = await stack.enter_async_context(listen(Server().handle, host, port))
        if settings.operations_port is not None:
            await stack.enter_async_context(Operations().serve(settings.operations_host, settings.operations_port))
        log.info("scripted_model.started", host=host, port=real)
        await asyncio.Event().wait()


def main() -> None:
    """Run the process. Flags of the gateway image's own entry point are ignored."""
    settings = Settings()
    parser = argparse.ArgumentParser(prog="scripted_model", description=__doc__)
    parser.add_argument("--host", default=settings.listen_host, help="address to listen on")
    parser.add_argument("--port", type=int, default=settings.listen_port, help="port to listen on; 0 takes any")
    flags, _ = parser.parse_known_args()
    configure_logging("scripted-model", settings.log_level)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    run(lambda: serve(flags.host, flags.port, settings))


if __name__ == "__main__":
    main()
