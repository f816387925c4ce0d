"""Files that are read and written over a stream."""

from __future__ import annotations

import errno
import os
import stat
import struct

from sandboxd.paths import describe
from sandboxd.protocol import (
    CONGESTED,
    CREDIT,
    MAX_PAYLOAD,
    OUTPUT_WINDOW,
    RESULT,
    STDOUT,
    Refused,
    Violation,
    field,
    number,
    refusal,
)
from sandboxd.system import quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from sandboxd.connection import Connection
    from sandboxd.protocol import Json


class Stream:
    """What a client has open under one number."""

    def __init__(self, connection: Connection, stream: int) -> None:
        self.connection = connection
        self.stream = stream

    def credit(self, count: int) -> None:
        """The client consumed output."""

    def feed(self, data: bytes) -> None:  # noqa: ARG002 what others override
        """The client sent input."""
        raise Violation("input for a request that takes none")

    def end_input(self) -> None:
        """The client's input is complete."""

    def control(self, message: Json) -> None:
        """A signal or a new terminal size: for commands only."""

    def cancel(self) -> None:
        """The client wants no answer any more; nothing may be left behind."""


class FileReader(Stream):
    """Streams a range of a regular file."""

    def __init__(self, connection: Connection, stream: int, path: str, request: Json) -> None:
        super().__init__(connection, stream)
        self.window = OUTPUT_WINDOW
        self.offset = number(request, "offset", 0, 0, 1 << 62)
        self.left = number(request, "length", 1 << 62, 0, 1 << 62)
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        self.info = os.fstat(self.fd)
        if not stat.S_ISREG(self.info.st_mode):
            os.close(self.fd)
            directory = stat.S_ISDIR(self.info.st_mode)
            what = "is a directory" if directory else "not a regular file"
            raise Refused("is_directory" if directory else "not_a_file", "%s: %s" % (path, what))

    def credit(self, count: int) -> None:
        """Send on."""
        self.window += count
        if self.window > OUTPUT_WINDOW:
            raise Violation("more credit than output")
        self.pump()

    def pause(self, _paused: bool) -> None:
        """The connection has room again."""
        self.pump()

    def pump(self) -> None:
        """Send what the client has room for; the rest when it has."""
        while self.fd >= 0 and self.window > 0:
            if self.connection.unsent > CONGESTED:
                self.connection.blocked.add(self)
                return
            try:
                data = os.pread(self.fd, min(MAX_PAYLOAD, self.window, self.left), self.offset) if self.left else b""
            except OSError as error:
                self.cancel()
                self.connection.fail(self.stream, refusal(error))
                return
            if not data:
                self.cancel()
                self.connection.finish(self.stream, RESULT, describe(self.info))
                return
            self.offset += len(data)
            self.left -= len(data)
            self.window -= len(data)
            self.connection.send(STDOUT, self.stream, data)

    def cancel(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class FileWriter(Stream):
    """Receives a file beside its final place and moves it there when it is whole, and on disk unless `sync` is false."""

    def __init__(self, connection: Connection, stream: int, path: str, request: Json) -> None:
        super().__init__(connection, stream)
        self.guard = connection.daemon.guard
        self.path = path
        self.written = 0
        self.sync = field(request, "sync", bool, True)
        mode = number(request, "mode", None, 0, 0o7777)
        info = quietly(os.stat, path)
        if info and stat.S_ISDIR(info.st_mode):
            raise Refused("is_directory", "%s: is a directory" % path)
        if info and not stat.S_ISREG(info.st_mode):
            raise Refused("not_a_file", "%s: not a regular file" % path)
        if info and not os.access(path, os.W_OK):
            raise Refused("permission_denied", "%s: not writable" % path)
        folder, name = os.path.split(path)
        if field(request, "make_parents", bool, True):
            os.makedirs(folder, exist_ok=True)
        if len(os.fsencode(name)) > 255:
            raise Refused("invalid", "path: the name is longer than 255 bytes")
        self.temporary = os.path.join(folder, ".hermes-%s" % os.urandom(8).hex())
        self.nameless = True
        try:  # a file without a name leaves nothing behind when this process is killed
            self.fd = os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            self.nameless = False
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self.fd = os.open(self.temporary, flags, 0o600)
        os.fchmod(self.fd, mode if mode is not None else stat.S_IMODE(info.st_mode) if info else 0o644)
        self.created = info is None

    def feed(self, data: bytes) -> None:
        """Write one piece; the quota is checked before."""
        if self.fd < 0:
            return
        try:
            if not self.guard.has_room(self.path, len(data)):
                raise Refused("quota_exceeded", "%s: the workspace is full (%s)" % (self.path, self.guard.describe_disk()))
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except (OSError, Refused) as error:
            self.cancel()
            self.connection.fail(self.stream, refusal(error) if isinstance(error, OSError) else error)
            return
        self.written += len(data)
        self.guard.pending += len(data)
        self.connection.send(CREDIT, self.stream, struct.pack(">I", len(data)))

    def end_input(self) -> None:
        """Sync and rename, in a thread: a disk may take its time."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1

        def commit() -> None:
            folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if self.sync:
                    os.fsync(fd)
                if self.nameless:  # Python asks for AT_SYMLINK_FOLLOW only when a directory is given
                    os.link("/proc/self/fd/%d" % fd, self.temporary, src_dir_fd=folder, follow_symlinks=True)
                os.rename(self.temporary, self.path)
                if self.sync:
                    quietly(os.fsync, folder)
            except OSError:
                quietly(os.unlink, self.temporary)
                raise
            finally:
                os.close(folder)
                os.close(fd)

        def done(_: Any, error: Optional[BaseException]) -> None:
            self.guard.wrote(self.path, self.written, error is None)
            self.connection.answer(self.stream, {"size": self.written, "created": self.created}, error)

        self.connection.daemon.loop.in_thread(commit, done)

    def cancel(self) -> None:
        """Forget the half-written file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self.guard.pending -= self.written
            if not self.nameless:
                quietly(os.unlink, self.temporary)
