"""A port of the gateway on loopback, through `kubectl port-forward`; opened again when the pod behind it goes away."""

from __future__ import annotations

import asyncio
import contextlib
import re

from hermes_cli.connection.kubectl import Kubectl, explain
from hermes_cli.errors import CliError, ExitCode, unreachable
from hermes_contracts.installation import PORT_API

_FORWARDING = re.compile(rb"127\.0\.0\.1:(\d+) ->")
_ATTEMPT_SECONDS = 15.0
_PAUSE_SECONDS = 0.5


class Forward:
    """Owns one kubectl process while it is open. The local port changes when it is opened again."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._process: asyncio.subprocess.Process | None = None
        self._url = ""
        self._opening = asyncio.Lock()

    async def url(self) -> str:
        """Return the address, opening the forward when it is not open. Raises CliError."""
        async with self._opening:
            if self._process is None or self._process.returncode is not None:
                await self._open()
            return self._url

    async def broken(self) -> None:
        """Forget a forward whose connections fail: kubectl may live on after the pod behind it is gone."""
        await self.close()

    async def _open(self) -> None:
        """Try for a while: a gateway that is being replaced has no pod to forward to for some seconds."""
        problem: CliError = unreachable("the port-forward did not open")
        for _ in range(3):
            try:
                await self._start()
                return
            except CliError as error:
                if error.code is ExitCode.USAGE:
                    raise
                problem = error
            await asyncio.sleep(_PAUSE_SECONDS)
        raise problem

    async def _start(self) -> None:
        service = f"svc/{self._kubectl.place.release}-gateway"
        self._process = await asyncio.create_subprocess_exec(
            *self._kubectl.command("port-forward", service, f":{PORT_API}", "--address", "127.0.0.1"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C in the terminal is for the conversation, not for the connection it is held over.
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                line = await self._process.stdout.readline()
                match = _FORWARDING.search(line)
                if match:
                    self._url = f"http://127.0.0.1:{int(match.group(1))}"
                    return
                stderr = await self._process.stderr.read(4096)
        except TimeoutError:
            await self.close()
            raise unreachable(
                f"kubectl port-forward did not open within {_ATTEMPT_SECONDS:g} s", "see hermes doctor"
            ) from None
        await self.close()
        raise explain(stderr.decode(errors="replace"))

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
