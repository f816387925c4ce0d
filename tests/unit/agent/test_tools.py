"""Pure parts of the tools: what fits, what is cut, what may run together."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_agent.tools import v4a
from hermes_agent.tools.base import BARRIER, Access
from hermes_agent.tools.fuzzy import NoMatch, replace
from hermes_agent.tools.planner import MAX_PARALLEL, segments
from hermes_agent.tools.registry import ALL_TOOLS, tools_of
from hermes_agent.tools.text import MAX_OUTPUT_BYTES, cut_lines, decode, window
from tests.unit.agent.agent_scene import Scene

CODE = "def f(a):\n\tif a:\n\t\treturn 'x'\n\treturn None\n\n\ndef g():\n\tpass\n"


@pytest.mark.parametrize(
    ("old", "new", "how", "expected"),
    [
        ("return None", "return 1", "exact", "\treturn 1\n"),
        ("if a:  \n\t\treturn 'x'  ", "if not a:\n\t\treturn 'y'", "trailing whitespace ignored", None),
        ("\tif a:   \n\t\treturn 'x'", "\tif b:\n\t\treturn 'y'", "trailing whitespace", "\tif b:\n\t\treturn 'y'\n"),
        ("  if a:\n    return 'x'", "  if b:\n    return 'y'\n    #", "indentation", "\tif b:\n\t\treturn 'y'\n\t\t#\n"),
        ("if  a:\nreturn ‘x’", "if c:\nreturn 'z'", "spaces and quotes folded", "\tif c:\n"),
        ("def g():\\n\\tpass", "def h():\n\tpass", "escapes resolved", "def h():\n\tpass\n"),
        (CODE[:-7].replace("None", "Nil"), "def k():", "first and last line", "def k():\n\tpass\n"),
    ],
)  # fmt: skip
def test_a_text_is_found_although_it_was_copied_badly(old: str, new: str, how: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(NoMatch):
            replace(CODE, old.replace("'x'", "'q'"), new, replace_all=False)
        return
    changed, count, used = replace(CODE, old, new, replace_all=False)
    assert count == 1 and used.startswith(how) and expected in changed


def test_an_ambiguous_or_missing_text_is_refused_with_a_way_out() -> None:
    with pytest.raises(NoMatch, match="found 2 times"):
        replace("a\na\n", "a", "b", replace_all=False)
    assert replace("a\na\n", "a", "b", replace_all=True)[:2] == ("b\nb\n", 2)
    for old, new in (("zzz", "b"), ("", "b"), ("a", "a")):
        with pytest.raises(NoMatch):
            replace("a\n", old, new, replace_all=False)


@given(st.text(alphabet="ab \n", max_size=40), st.text(alphabet="ab \n", min_size=1, max_size=8), st.text(max_size=8))
def test_an_exact_replacement_is_what_str_replace_does(text: str, old: str, new: str) -> None:
    if old == new or text.count(old) != 1:
        return
    assert replace(text, old, new, replace_all=False)[0] == text.replace(old, new)


@given(st.text(max_size=3_000), st.integers(200, 2_000), st.integers(5, 50))
def test_a_window_keeps_head_and_tail_and_stays_small(text: str, max_bytes: int, max_lines: int) -> None:
    shown = window(text, max_bytes=max_bytes, max_lines=max_lines)
    assert len(shown.encode("utf-8", "replace")) <= max_bytes + 200
    if len(text.encode("utf-8", "replace")) <= max_bytes and text.count("\n") < max_lines:
        assert shown == text


def test_terminal_output_is_cleaned() -> None:
    assert decode(b"\x1b[31mred\x1b[0m\x00 \xff\r\nnext\n10%\r50%\r100%\n") == "red �\nnext\n100%\n"
    assert decode(b"10%\r50%\r\r\nlast\r") == "50%\nlast"
    assert len(cut_lines("x" * 5_000)) < 2_100
    assert len(window("y" * (MAX_OUTPUT_BYTES * 2))) < MAX_OUTPUT_BYTES + 200


def test_v4a_errors_name_the_file_and_the_line() -> None:
    for patch, words in (
        ("nothing", "Begin Patch"),
        ("*** Begin Patch\n*** Update File: a\n@@\n-x", "End Patch"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2"),
        ("*** Begin Patch\n*** Add File: a\nno plus\n*** End Patch", "line 3"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "no changes"),
        ("*** Begin Patch\n*** Delete File: a\n*** Delete File: a\n*** End Patch", "named once"),
    ):
        with pytest.raises(v4a.PatchError, match=words):
            v4a.parse(patch)


def test_v4a_hunks_apply_in_order_at_their_anchors() -> None:
    text = "class A:\n    def run(self):\n        return 1\n\n\nclass B:\n    def run(self):\n        return 1\n"
    (change,) = v4a.parse(
        "*** Begin Patch\n*** Update File: m.py\n@@ class B:\n     def run(self):\n-        return 1\n+        return 2\n"
        "*** End Patch"
    )
    assert v4a.apply_update(change, text) == text[:-2] + "2\n"


def test_calls_that_touch_the_same_are_never_together_and_barriers_are_alone() -> None:
    read, other = Access(reads=frozenset({"a"})), Access(reads=frozenset({"b"}))
    write, below = Access(writes=frozenset({"a"})), Access(writes=frozenset({"a/x"}))
    everything = Access(reads=frozenset({"."}))
    assert segments([read, other, read]) == [[0, 1, 2]]
    assert segments([read, write, other]) == [[0], [1, 2]]
    assert segments([write, below]) == [[0], [1]]
    assert segments([everything, write]) == [[0], [1]]
    assert segments([read, BARRIER, BARRIER, other]) == [[0], [1], [2], [3]]
    assert [len(s) for s in segments([read] * 20)] == [MAX_PARALLEL, MAX_PARALLEL, 4]
    assert segments([]) == []


def test_tools_follow_the_toolsets_and_their_schemas_are_plain() -> None:
    assert list(tools_of(("file",))) == ["patch", "read_file", "search_files", "send_file", "write_file"]
    assert list(tools_of(("terminal", "unknown"))) == ["process_manage", "terminal"]
    for tool in ALL_TOOLS:
        text = tool.spec().model_dump_json()
        assert "anyOf" not in text and '"title"' not in text and "$ref" not in text
    assert tools_of(("terminal",))["terminal"].spec().parameters["required"] == ["command"]


async def test_a_huge_round_of_results_fits_the_bus() -> None:
    reads = [(f"c{n}", "read_file", f'{{"path": "f{n}", "limit": 2000}}') for n in range(12)]
    scene = Scene(ScriptedModel([call(*reads), say("ok")]))
    scene.sandbox.files = {f"f{n}": ("ü" * 60 + "\n").encode() * 2_000 for n in range(12)}
    await scene.send()
    assert sum(len(r.text.encode()) for r in scene.results()) < 260_000
    assert all(".hermes/spill/" in r.text for r in scene.results())


async def test_a_failing_disk_leaves_every_file_of_a_patch_as_it_was() -> None:
    patch = "*** Begin Patch\\n*** Update File: a\\n@@\\n-1\\n+2\\n*** Add File: b\\n+x\\n*** End Patch"
    scene = Scene(ScriptedModel([call(("c", "patch", f'{{"mode": "patch", "patch": "{patch}"}}')), say("ok")]))
    scene.sandbox.files = {"a": b"1\n"}
    scene.sandbox.refuse_writes = {"b"}
    await scene.send()
    assert scene.results()[0].is_error and "nothing was changed" in scene.results()[0].text
    assert scene.sandbox.files == {"a": b"1\n"}
