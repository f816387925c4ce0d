"""sandboxd: runs an agent's commands and holds its files, spoken to over one Unix socket (docs/exec-protocol.md).

Standard library only, Python 3.8 or later, shipped as one file, so that it can be dropped into anybody's image. One thread
and one epoll set do everything that cannot block; short-lived threads do what can (fsync, directory trees).

Modules that are slow to import (asyncio, subprocess, typing, tempfile) are avoided: the first command of a cold pod
waits for this import.
"""
