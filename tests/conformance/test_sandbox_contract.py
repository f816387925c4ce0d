"""The contract other agent platforms hold their sandboxes to, held against ours. Run it with tools/conformance.sh.

The checks are inspect_ai's own; only the adapter is here. As root the daemon runs under a user of its own, as in its
container, so that the checks on permissions mean something.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
import zipapp
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxUserUnsupportedError
from inspect_ai.util._sandbox.limits import SandboxEnvironmentLimits
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from hermes_agent import sandbox as hermes

DAEMON = Path(__file__).parents[2] / "sandbox_image"
CANNOT_APPLY = {"test_exec_as_user": "a sandbox has one user and no root (docs/exec-protocol.md)"}


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Our errors as the built-in ones that the contract names."""
    kinds = {hermes.NotFound: FileNotFoundError, hermes.IsDirectory: IsADirectoryError, hermes.Invalid: FileNotFoundError}
    try:
        yield
    except hermes.PermissionDenied as error:
        raise PermissionError(13, str(error), name) from error
    except tuple(kinds) as error:
        raise kinds[type(error)](2, str(error), name) from error


class HermesSandbox(SandboxEnvironment):
    """inspect_ai's interface over our client."""

    def __init__(self, client: hermes.Sandbox) -> None:
        super().__init__()
        self._client = client

    async def exec(
        self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True  # noqa: A002
    ):  # fmt: skip
        if user is not None:
            raise SandboxUserUnsupportedError(user, "a sandbox has one user")
        request = hermes.ExecRequest(argv=tuple(cmd), cwd=cwd, env=dict(env or {}), timeout_seconds=timeout)
        data = input.encode() if isinstance(input, str) else input
        with translated(cmd[0]):
            try:
                result = await self._client.run(request, stdin=data, max_output_bytes=4 * 1024 * 1024)
            except hermes.NotFound as error:
                return ExecResult(False, 127, "", str(error))
        if result.exit.killed == "timeout":
            raise TimeoutError
        code = result.exit.code if result.exit.code is not None else 128 + (result.exit.signal or 0)
        return ExecResult(code == 0, code, result.text(), result.text(stderr=True))

    async def write_file(self, file, contents):
        with translated(file):
            await self._client.write_file(file, contents.encode() if isinstance(contents, str) else contents)

    async def read_file(self, file, text=True):
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        with translated(file):
            try:
                data = await self._client.read_file(file, max_bytes=min(limit, 64 * 1024 * 1024))
            except hermes.TooLarge as error:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
        return data.decode() if text else data

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        """Nothing: the fixture owns the daemon."""


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[HermesSandbox]:
    if reason := CANNOT_APPLY.get(request.node.originalname):
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="hermes-conformance-"))
    (folder / "workspace").mkdir()
    zipapp.create_archive(DAEMON, folder / "sandboxd.pyz")
    prefix: list[str] = []
    if os.getuid() == 0:
        for path in (folder, folder / "workspace"):
            os.chown(path, 10002, 10000)
        prefix = ["setpriv", "--reuid", "10002", "--regid", "10000", "--clear-groups"]
    process = await asyncio.create_subprocess_exec(
        *prefix, "/usr/bin/python3", "-I", "-S", "-E", str(folder / "sandboxd.pyz"), "--socket", str(folder / "exec.sock"),
        "--workspace", str(folder / "workspace"), "--peer-uid", str(os.getuid()), "--allow-root", "/",
    )  # fmt: skip
    client = await hermes.Sandbox.connect(str(folder / "exec.sock"), timeout=20)
    yield HermesSandbox(client)
    await client.close()
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 20) == 0
    shutil.rmtree(folder)
