"""`make dev`: the product as plain processes, and one conversation with it in this terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time

import httpx

from demo.chat import Conversation
from local_stack.processes import StartFailed
from local_stack.runner import LocalRunner
from local_stack.stack import Stack, running_stack, stack_folder

_HELP = """\
There is NO isolation here: commands of the agent run on this machine as you. Logs: {folder}
  API      {api}   key {key}
  webhooks {webhooks}
Say something, or `!ls -la` to have the agent run a command. Ctrl-D ends."""


async def _read_line() -> str | None:
    line = await asyncio.to_thread(sys.stdin.readline)
    return line.strip() if line else None


async def _converse(stack: Stack, first: list[str]) -> None:
    conversation = Conversation(stack.api_url, stack.api_key, session="terminal")
    try:
        for text in first:
            conversation.ask(text)
            await conversation.say(text)
        while not first:
            print("\nyou> ", end="", flush=True)
            text_or_end = await _read_line()
            if text_or_end is None:
                return
            if text_or_end:
                await conversation.say(text_or_end)
    finally:
        await conversation.close()


async def _main(first: list[str]) -> None:
    started = time.monotonic()
    with stack_folder() as folder:
        async with running_stack(folder) as stack:
            runner = asyncio.create_task(LocalRunner(stack).run())
            try:
                print(f"Ready after {time.monotonic() - started:.1f} s.", flush=True)
                print(_HELP.format(folder=folder, api=stack.api_url, key=stack.api_key, webhooks=stack.webhooks_url))
                await _converse(stack, first)
            finally:
                runner.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await runner


def main() -> None:
    """Run until the conversation ends."""
    parser = argparse.ArgumentParser(
        prog="make dev", description=__doc__, epilog="Example: python -m local_stack --say hello --say '!uname -a'"
    )
    parser.add_argument("--say", action="append", default=[], help="say this and end, instead of reading the terminal")
    try:
        asyncio.run(_main(parser.parse_args().say))
    except StartFailed as error:
        sys.exit(f"local_stack: {error}")
    except httpx.HTTPStatusError as error:
        sys.exit(f"local_stack: the gateway answered {error.response.status_code}: {error.response.text}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
