"""What each style of signed webhook costs: 200 a second, with templates for prompt and thread, stored and synced to disk.

Run: PYTHONPATH=libs:gateway_image:tools:. python -m bench.webhook_styles [--rate 200] [--seconds 4]
Prints one JSON line a style; the gateway's processor time is what tells them apart.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.webhook_accept import SECRET, SESSIONS, measure, request, start

STANDARD_SECRET = "whsec_" + base64.b64encode(SECRET.encode()).decode()
PROMPT = "Look at {pull_request.title} by {pull_request.user.login}: {pull_request.body}"
Sign = Callable[[int, str, bytes], Mapping[str, str]]


def _hex(content: bytes) -> str:
    return hmac.digest(SECRET.encode(), content, hashlib.sha256).hex()


def _github(number: int, _: str, body: bytes) -> Mapping[str, str]:
    return {
        "X-Hub-Signature-256": f"sha256={_hex(body)}",
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": f"g-{number}",
    }


def _stripe(_: int, now: str, body: bytes) -> Mapping[str, str]:
    return {"Stripe-Signature": f"t={now},v1={_hex(f'{now}.'.encode() + body)}"}


def _slack(_: int, now: str, body: bytes) -> Mapping[str, str]:
    return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": f"v0={_hex(f'v0:{now}:'.encode() + body)}"}


def _standard(number: int, now: str, body: bytes) -> Mapping[str, str]:
    digest = hmac.digest(SECRET.encode(), f"s-{number}.{now}.".encode() + body, hashlib.sha256)
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": f"s-{number}", "webhook-timestamp": now, "webhook-signature": signature}


STYLES: dict[str, Sign] = {"github": _github, "stripe": _stripe, "slack": _slack, "standard": _standard}


def build(style: str, number: int) -> bytes:
    """Return a request of a style, with the ids that each of them wants somewhere else."""
    pull_request = {"title": f"Change {number}", "body": "x" * 800, "user": {"login": "ada"}, "labels": ["a", "b"]}
    facts = {"id": f"e-{number}", "event_id": f"e-{number}", "type": "opened", "number": number % SESSIONS}
    body = json.dumps({**facts, "action": "opened", "pull_request": pull_request}).encode()
    return request(f"/webhooks/{style}", body, STYLES[style](number, str(int(time.time())), body))


async def main(rate: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with AsyncExitStack() as exits:
            routes = [
                {
                    "name": style,
                    "style": style,
                    "secret": STANDARD_SECRET if style == "standard" else SECRET,
                    "prompt": PROMPT,
                    "thread": "pr-{number}",
                }
                for style in STYLES
            ]
            port, gateway = await start(Path(name), exits, *routes)
            for style in STYLES:
                await measure(f"webhook_{style}", port, gateway, rate, seconds, partial(build, style))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=4)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rate, arguments.seconds))
