"""Progress for a person, and running other programs without hiding what they said."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

HEARTBEAT_SECONDS = 15.0
TAIL_LINES = 25


class ClusterError(Exception):
    """Something the person at the terminal can act on; the text says what."""


class Console:
    """Prints one line a step with the seconds since the start."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out = out
        self._start = time.monotonic()

    def say(self, text: str) -> None:
        """Print one progress line."""
        print(f"[{time.monotonic() - self._start:6.1f} s] {text}", file=self._out, flush=True)


def output(
    command: Sequence[str | Path],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    seconds: float = 60.0,
) -> str:
    """Standard output of a short command.

    Raises ClusterError with the command's own error text when it fails or takes longer than `seconds`.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=environ, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{' '.join(words[:4])} did not answer within {seconds:.0f} s") from error
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(words[:6])} failed ({done.returncode}): {done.stderr.strip()[-2000:]}")
    return done.stdout


def succeeds(command: Sequence[str | Path], *, environ: Mapping[str, str] | None = None, seconds: float = 30.0) -> bool:
    """Whether a short command exits with 0; a missing program or a time-out is a no."""
    try:
        output(command, environ=environ, seconds=seconds)
    except ClusterError:
        return False
    return True


def run_logged(
    console: Console,
    what: str,
    command: Sequence[str | Path],
    log: Path,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a long command into a log file, which it replaces, with a line every 15 s.

    Raises ClusterError with the end of the log when it fails. An interrupt stops the command too.
    """
    console.say(what)
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(word) for word in command],
            env=environ,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            code = _wait(console, what, process, log, started)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code != 0:
        raise ClusterError(f"{what}: failed with exit status {code}. The end of {log}:\n{_tail(log, TAIL_LINES)}")


def _wait(console: Console, what: str, process: subprocess.Popen[bytes], log: Path, started: float) -> int:
    while True:
        try:
            return process.wait(timeout=HEARTBEAT_SECONDS)
        except subprocess.TimeoutExpired:
            console.say(f"  still: {what} ({time.monotonic() - started:.0f} s; {_tail(log, 1)[-90:]})")


def _tail(log: Path, lines: int) -> str:
    """The last lines of a log, reading at most its last 16 KiB."""
    with log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 16384))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-lines:])
