"""Pieces of workspaces in a bucket: a server that speaks as much of S3 as the store asks of it, and has its bad days."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.store.workspaces.s3 import S3Shelf, s3_shelf

_MISSING = b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>no</Message></Error>"
_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"


@dataclass
class Bucket:
    """Objects by path, over HTTP/1.1. `fails` answers are errors, `denies` refuses everything, `gone` hangs up."""

    objects: dict[str, bytes] = field(default_factory=dict)
    fails: int = 0
    denies: bool = False
    gone: bool = False
    seen: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (line := await reader.readline()) and not self.gone:
                method, path, _ = line.decode().split(" ", 2)
                headers = await self._headers(reader)
                if headers.get("expect"):
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await self._body(reader, headers)
                status, answer = self._answer(method, path.partition("?")[0], body, headers)
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(answer)) + answer)
                await writer.drain()
        finally:
            writer.close()

    async def _headers(self, reader: asyncio.StreamReader) -> dict[str, str]:
        headers = {}
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return headers

    async def _body(self, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("content-encoding", "") + headers.get("transfer-encoding", ""):
            return await reader.readexactly(int(headers.get("content-length", 0)))
        body = b""
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            body += await reader.readexactly(size)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return body

    def _answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        self.seen.append(headers.get("authorization", ""))
        if self.fails:
            self.fails -= 1
            return 503, b""
        if self.denies:
            return 403, _DENIED
        if method == "PUT":
            self.objects[path] = body
            return 200, b""
        if method == "DELETE":
            self.objects.pop(path, None)
            return 204, b""
        return (200, self.objects[path]) if path in self.objects else (404, _MISSING)


@asynccontextmanager
async def serving(bucket: Bucket, folder: Path) -> AsyncIterator[S3Shelf]:
    (folder / "access-key-id").write_text("id-of-the-test\n")
    (folder / "secret-access-key").write_text("secret-of-the-test")
    server = await asyncio.start_server(bucket.serve, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    shelf = s3_shelf(bucket="files", prefix="ours/", endpoint=endpoint, region="here", credentials=folder)
    try:
        yield shelf
    finally:
        shelf.close()
        server.close()


async def test_pieces_go_in_and_out(tmp_path: Path) -> None:
    bucket = Bucket()
    async with serving(bucket, tmp_path) as shelf:
        await shelf.put(("s1", "one"), b"\0" * 262_145)
        await shelf.put(("s1", "two"), b"2")
        assert set(bucket.objects) == {"/files/ours/s1/one", "/files/ours/s1/two"}
        assert await shelf.get(("s1", "one")) == b"\0" * 262_145
        assert await shelf.get(("s1", "none")) is None
        await shelf.delete([("s1", "one"), ("s1", "none")])
        assert set(bucket.objects) == {"/files/ours/s1/two"}
    assert all("id-of-the-test" in authorization for authorization in bucket.seen)
    assert not any("secret-of-the-test" in authorization for authorization in bucket.seen)


async def test_a_bad_moment_is_waited_out(tmp_path: Path) -> None:
    bucket = Bucket(fails=1)
    async with serving(bucket, tmp_path) as shelf:
        await shelf.put(("s1", "one"), b"1")
        assert await shelf.get(("s1", "one")) == b"1"


async def test_who_is_refused_is_told_so_and_may_try_again(tmp_path: Path) -> None:
    async with serving(Bucket(denies=True), tmp_path) as shelf:
        with pytest.raises(HermesError, match="AccessDenied") as caught:
            await shelf.put(("s1", "one"), b"1")
        assert (caught.value.code, caught.value.retryable) == (ErrorCode.UNAVAILABLE, True)
        with pytest.raises(HermesError):
            await shelf.get(("s1", "one"))


async def test_a_bucket_that_is_away_is_an_error_in_words(tmp_path: Path) -> None:
    bucket = Bucket()
    async with serving(bucket, tmp_path) as shelf:
        bucket.gone = True
        with pytest.raises(HermesError, match="the bucket does not"):
            await shelf.get(("s1", "one"))
