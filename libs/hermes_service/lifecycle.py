"""How a process starts and ends: SIGTERM and SIGINT cancel the main task, which cleans up and leaves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable


def run(main: Callable[[], Awaitable[None]], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
    """Run `main` until it ends or a signal comes. A signal cancels it once; a second one is left to the default handler."""

    async def body() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(main())

        def stop(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(body())
