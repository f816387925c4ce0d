"""Pieces in a bucket of S3, or of anything that speaks its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.store.workspaces.shelf import Place

Result = TypeVar("Result")

_AT_ONCE = 16
_GONE = {"NoSuchKey", "404"}
ACCESS_KEY_FILE, SECRET_KEY_FILE = "access-key-id", "secret-access-key"
"""Keys of the Secret that is mounted as the folder of credentials."""


class S3Shelf:
    """One object a piece, `<prefix><session>/<name>`; calls wait in threads of their own."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="s3")

    def close(self) -> None:
        """Close connections and end the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    async def put(self, place: Place, data: bytes) -> None:
        """Write an object."""
        await self._call(lambda: self._client.put_object(Bucket=self._bucket, Key=self._key(place), Body=data))

    async def get(self, place: Place) -> bytes | None:
        """Read an object."""

        def read() -> bytes:
            return bytes(self._client.get_object(Bucket=self._bucket, Key=self._key(place))["Body"].read())

        return await self._call(read, missing=None)

    async def delete(self, places: Sequence[Place]) -> None:
        """Delete objects, as many at once as there are threads."""

        def delete(key: str) -> Callable[[], object]:
            return lambda: self._client.delete_object(Bucket=self._bucket, Key=key)

        await asyncio.gather(*(self._call(delete(self._key(place))) for place in places))

    def _key(self, place: Place) -> str:
        return f"{self._prefix}{place[0]}/{place[1]}"

    async def _call(self, work: Callable[[], Result], missing: Result | None = None) -> Result | None:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code in _GONE:
                return missing
            raise _unavailable(code or "an error without a name") from error
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise _unavailable(type(error).__name__) from error


def s3_shelf(*, bucket: str, prefix: str, endpoint: str, region: str, credentials: Path | None) -> S3Shelf:
    """Return a shelf in a bucket. Without `credentials` the SDK looks for its own, for example a role of the node.

    Raises OSError when the files of credentials cannot be read.
    """
    # Half a second of imports, for those only that keep files there.
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=3,
        read_timeout=10,
        retries={"mode": "standard", "max_attempts": 2},
        max_pool_connections=_AT_ONCE,
        s3={"addressing_style": "path"} if endpoint else None,
    )
    keys = {}
    if credentials is not None:
        keys = {
            "aws_access_key_id": (credentials / ACCESS_KEY_FILE).read_text().strip(),
            "aws_secret_access_key": (credentials / SECRET_KEY_FILE).read_text().strip(),
        }
    client = boto3.client("s3", endpoint_url=endpoint or None, region_name=region or None, config=config, **keys)
    return S3Shelf(client, bucket, prefix)


def _unavailable(why: str) -> HermesError:
    return HermesError(
        ErrorCode.UNAVAILABLE, f"the bucket does not take or give files of workspaces now: {why}", retryable=True
    )
