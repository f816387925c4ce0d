"""The client's parser believes nothing; the daemon's survives anything."""

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import ValidationError

from hermes_agent.sandbox import ExecRequest, ProtocolError, SandboxError, SearchQuery
from hermes_agent.sandbox.errors import BY_CODE, error_for
from hermes_agent.sandbox.frames import FROM_SANDBOX, HEADER, MAX_PAYLOAD, FrameBuffer, Kind, pack
from hermes_agent.sandbox.messages import Exit, Listing, parse

DAEMON = Path(__file__).parents[3] / "sandbox_image"

frames = st.lists(
    st.tuples(st.sampled_from(sorted(FROM_SANDBOX)), st.integers(0, 2**32 - 1), st.binary(max_size=3000)), max_size=20
)


def fill(buffer: FrameBuffer, data: bytes, step: int) -> list[tuple[Kind, int, bytes]]:
    """Feed bytes in pieces of at most `step`, as a socket would."""
    seen = []
    view = memoryview(data)
    while view:
        room = buffer.free()
        count = min(step, len(room), len(view))
        room[:count] = view[:count]
        view = view[count:]
        seen += list(buffer.filled(count))
    return seen


@given(frames, st.integers(1, 5000))
def test_frames_arrive_whole_however_they_are_cut(sent: list[tuple[Kind, int, bytes]], step: int) -> None:
    data = b"".join(pack(*frame) for frame in sent)
    assert fill(FrameBuffer(), data, step) == sent


def test_the_buffer_does_not_grow_and_takes_the_largest_frame() -> None:
    buffer = FrameBuffer()
    sent = [(Kind.STDOUT, 1, bytes([n]) * MAX_PAYLOAD) for n in range(8)]
    assert fill(buffer, b"".join(pack(*frame) for frame in sent), 100_000) == sent
    assert len(buffer._data) < 600_000


@given(st.binary(min_size=9, max_size=4000))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    try:
        for kind, _, payload in fill(FrameBuffer(), data, 1000):
            assert kind in FROM_SANDBOX
            assert len(payload) <= MAX_PAYLOAD
    except ProtocolError:
        pass


@pytest.mark.parametrize(("length", "kind"), [(MAX_PAYLOAD + 1, 2), (2**32 - 1, 8), (0, 1), (0, 4), (0, 99)])
def test_frames_that_may_not_be_sent_are_refused_before_their_content_arrives(length: int, kind: int) -> None:
    with pytest.raises(ProtocolError):
        fill(FrameBuffer(), HEADER.pack(length, kind, 1), 9)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_answers_that_are_not_what_was_asked_for_are_protocol_errors(value: object) -> None:
    for kind in (Exit, Listing):
        with pytest.raises(ProtocolError):
            parse(kind, json.dumps(value).encode())


@pytest.mark.parametrize("code", [*BY_CODE, "something new"])
def test_every_error_code_has_an_exception_with_the_message(code: str) -> None:
    error = error_for(code, "the text")
    assert isinstance(error, SandboxError)
    assert error.message == "the text"


def test_requests_say_only_what_was_asked() -> None:
    assert ExecRequest(command="x", timeout_seconds=1.5, env={"A": None}).wire(max_output_bytes=10) == {
        "op": "exec", "command": "x", "stdin": False, "timeout_ms": 1500, "env": {"A": None}, "max_output_bytes": 10,
    }  # fmt: skip
    with pytest.raises(ValidationError):
        SearchQuery(pattern="")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A sandboxd to throw things at."""
    folder = tmp_path_factory.mktemp("fuzz")
    path = str(folder / "exec.sock")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(DAEMON), "--socket", path, "--workspace", str(folder)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 20
    while not Path(path).exists():
        assert time.monotonic() < deadline
    yield path
    assert process.poll() is None, "the daemon died"
    process.terminate()
    assert process.wait(20) == 0


def exchange(path: str, data: bytes) -> bytes:
    """Send bytes, say that no more come, take what comes back until the end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(path)
        back = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                back += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
        return back


HELLO = struct.pack(">IBI", 16, 0, 0) + b'{"versions":[1]}'
client_frames = st.tuples(st.integers(0, 12), st.integers(0, 3), st.binary(max_size=200)).map(
    lambda frame: struct.pack(">IBI", len(frame[2]), frame[0], frame[1]) + frame[2]
)
values = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20) | st.lists(st.integers(), max_size=3)
)
fields = (
    "argv",
    "shell",
    "data",
    "signal",
    "path",
    "offset",
    "length",
    "limit",
    "env",
    "cwd",
    "stdin",
    "pty",
    "timeout_ms",
    "max_output_bytes",
    "action",
    "id",
    "pattern",
)
requests = st.builds(
    lambda op, body: (lambda text: struct.pack(">IBI", len(text), 1, 1) + text)(json.dumps({**body, "op": op}).encode()),
    st.sampled_from(["exec", "read", "write", "stat", "list", "mkdir", "process", "status", "search", "move", "nonsense"]),
    st.dictionaries(st.sampled_from(fields), values, max_size=6),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=300), st.lists(client_frames | requests, max_size=5).map(lambda x: HELLO + b"".join(x))
    )
)
def test_no_bytes_bring_the_daemon_down(daemon: str, data: bytes) -> None:
    exchange(daemon, data)
    assert exchange(daemon, HELLO).endswith(b"}")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (struct.pack(">IBI", 2, 1, 1) + b"{}", b"speak version 1"),
        (struct.pack(">IBI", 16, 0, 0) + b'{"versions":[9]}', b"speak version 1"),
        (HELLO + struct.pack(">IBI", 2**31, 4, 1), b"frame of 2147483648 bytes"),
        (HELLO + struct.pack(">IBI", 2, 8, 1) + b"{}", b"frame type 8"),
        (HELLO + struct.pack(">IBI", 1, 1, 1) + b"{", b"not JSON"),
    ],
)
def test_a_broken_client_is_told_why_and_closed(daemon: str, data: bytes, expected: bytes) -> None:
    assert expected in exchange(daemon, data)
