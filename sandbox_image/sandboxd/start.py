"""Limits that every command inherits, the command line, and the start of it all."""

from __future__ import annotations

import os
import resource
import signal

from sandboxd.daemon import Daemon
from sandboxd.system import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, NoReturn

    from sandboxd.protocol import Json


def protect() -> None:
    """Adopt orphans (PR_SET_CHILD_SUBREAPER) and refuse to be traced by our own user (PR_SET_DUMPABLE)."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError) as error:  # a small image; as process 1 orphans come to us anyway
        log("no_prctl", error=str(error))
        return
    if prctl(36, 1, 0, 0, 0) != 0:
        log("no_subreaper", errno=ctypes.get_errno())
    prctl(4, 0, 0, 0, 0)


def limit_self(options: Json) -> None:
    """Limits every command inherits: no core files, and no single file above the quota."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options["max_workspace_bytes"]:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = options["max_workspace_bytes"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(hard, most), hard))
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open("/dev/null", os.O_RDWR)
    # The kernel's own choice, should it come to that, falls on commands: they inherit the worst score.
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def parse(arguments: List[str]) -> Json:
    """Command line to options; argparse would double the time to start."""
    options: Json = {
        "socket": "/run/hermes/exec/exec.sock",
        "workspace": "/workspace",
        "allow_root": [],
        "peer_uid": None,
        "max_workspace_bytes": 0,
        "memory_limit_bytes": 0,
        "max_processes": 1024,
    }
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        key = name[2:].replace("-", "_")
        if not name.startswith("--") or key not in options:
            raise SystemExit("%s: unknown; known: %s" % (name, ", ".join("--" + key.replace("_", "-") for key in options)))
        text = value if equals else next(words, "")
        if key == "allow_root":
            options[key].append(text)
        elif isinstance(options[key], str):
            options[key] = text
        elif text.isdigit():
            options[key] = int(text)
        elif text != "auto":
            raise SystemExit("%s: %s is not a whole number" % (name, text))
    options["allow_root"] = options["allow_root"] or ["/tmp"]
    return options


def main(arguments: List[str]) -> NoReturn:
    """Run the daemon."""
    options = parse(arguments)
    limit_self(options)
    daemon = Daemon(options)
    os.chdir("/")
    signal.set_wakeup_fd(daemon.loop.waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: daemon.loop.after(0.0, daemon.stop))
    signal.signal(signal.SIGINT, lambda *_: daemon.loop.after(0.0, daemon.stop))
    protect()
    log("listening", socket=options["socket"], workspace=daemon.paths.workspace)
    daemon.loop.run()
