"""Markdown as Slack shows it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from hermes_gateway.gateway.channels.slack.mrkdwn import render_mrkdwn

HIDDEN = "\u200b"


@pytest.mark.parametrize(
    ("markdown", "shown"),
    [
        ("Hello", "Hello"),
        ("**bold** *it* ~~gone~~ `code`", "*bold* _it_ ~gone~ `code`"),
        ("***both***", "_*both*_"),
        ("# Title with **bold**", "*Title with bold*"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("<!channel> and <@U123>", "&lt;!channel&gt; and &lt;@U123&gt;"),
        ("[Words](https://x.example/?a=1&b=2)", "<https://x.example/?a=1&amp;b=2|Words>"),
        ("<https://x.example>", "<https://x.example>"),
        ("![cat](https://x.example/cat.png)", "<https://x.example/cat.png|cat>"),
        ("[sly](javascript:alert(1))", "[sly](javascript:alert(1))"),
        ("[a|b](https://x.example)", "<https://x.example|a¦b>"),
        ("- one\n- two\n  - three", "• one\n• two\n    • three"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("> said\n> twice", "> said\n> twice"),
        ("```python\nif a < b:\n    pass\n```", "```\nif a &lt; b:\n    pass\n```"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("snake_case_name", "snake_case_name"),
        (r"\*literal\*", f"*{HIDDEN}literal*"),
        ("| a | bb |\n|---|---|\n| ccc | d |", "```\na    bb\n---  --\nccc  d\n```"),
        ("<b>html</b>", "&lt;b&gt;html&lt;/b&gt;"),
        ("---", "———"),
    ],
)
def test_each_kind_of_markup(markdown: str, shown: str) -> None:
    assert render_mrkdwn(markdown) == shown


@given(st.text(max_size=300))
def test_nothing_that_is_said_calls_anybody(markdown: str) -> None:
    """Slack acts on what stands in angle brackets: only links of ours may."""
    shown = render_mrkdwn(markdown)
    assert all(found.startswith(("<http://", "<https://", "<mailto:")) for found in re.findall(r"<[^>]*>?", shown))


@given(st.text("*_~`<>[]()#-|\n ab", max_size=200))
def test_any_markdown_is_rendered(markdown: str) -> None:
    render_mrkdwn(markdown)
