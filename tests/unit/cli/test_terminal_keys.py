"""A key that is pressed while something is written above the prompt is not lost."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Iterator

import pytest

from hermes_cli.talk.terminal import control_d_is_a_key

CTRL_D = b"\x04"


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A terminal that reads lines by itself: the person's end and the program's."""
    keyboard, terminal = os.openpty()
    yield keyboard, terminal
    os.close(keyboard)
    os.close(terminal)


def read(end: int) -> bytes:
    """Return what comes within ten seconds."""
    ready, _, _ = select.select([end], [], [], 10)
    assert ready
    return os.read(end, 10)


def test_control_d_between_two_prompts_is_for_the_next_one(ends: tuple[int, int]) -> None:
    keyboard, terminal = ends
    before = termios.tcgetattr(terminal)
    with control_d_is_a_key(terminal):
        os.write(keyboard, CTRL_D)
        assert read(keyboard) == b"^D", "the terminal has taken it"
        cooked = termios.tcgetattr(terminal)
        tty.setraw(terminal, termios.TCSANOW)
        assert read(terminal) == CTRL_D
        termios.tcsetattr(terminal, termios.TCSANOW, cooked)
    assert termios.tcgetattr(terminal) == before


def test_without_that_it_would_be_the_end_of_a_file(ends: tuple[int, int]) -> None:
    keyboard, terminal = ends
    os.write(keyboard, CTRL_D)
    assert read(terminal) == b""


def test_what_is_no_terminal_is_left_alone() -> None:
    reader, writer = os.pipe()
    try:
        with control_d_is_a_key(reader):
            os.write(writer, CTRL_D)
            assert os.read(reader, 10) == CTRL_D
    finally:
        os.close(reader)
        os.close(writer)
