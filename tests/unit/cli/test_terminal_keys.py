"""A key that is pressed while something is written above the prompt is not lost."""

from __future__ import annotations

import os
import select
import termios
import tty

import pytest

from hermes_cli.talk.terminal import control_d_is_a_key

CTRL_D = b"\x04"


def pressed_between_prompts(keyboard: int, terminal: int) -> bytes:
    """Press Ctrl-D while the terminal reads lines by itself, and return what the prompt that comes back then reads."""
    os.write(keyboard, CTRL_D)
    cooked = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSANOW)
    try:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        return os.read(terminal, 10) if ready else b""
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, cooked)


def test_control_d_is_a_key_meanwhile_and_the_end_of_a_file_again_afterwards() -> None:
    keyboard, terminal = os.openpty()
    try:
        before = termios.tcgetattr(terminal)
        with control_d_is_a_key(terminal):
            assert pressed_between_prompts(keyboard, terminal) == CTRL_D
        assert termios.tcgetattr(terminal) == before
        assert pressed_between_prompts(keyboard, terminal) != CTRL_D, "this is what is repaired"
    finally:
        os.close(keyboard)
        os.close(terminal)


def test_what_is_no_terminal_is_left_alone() -> None:
    reader, writer = os.pipe()
    try:
        with control_d_is_a_key(reader):
            os.write(writer, CTRL_D)
            assert os.read(reader, 10) == CTRL_D
        with pytest.raises(termios.error):
            termios.tcgetattr(reader)
    finally:
        os.close(reader)
        os.close(writer)
