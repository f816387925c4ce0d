"""Long answers are cut into parts that are whole by themselves."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hermes_gateway.text.split import cut_utf16, split_markdown, utf16_units

LINES = st.lists(
    st.one_of(st.text("ab é𝄞-", max_size=60), st.sampled_from(["```", "```python", "~~~", "````", "", "- x"])), max_size=60
)


def _open_fences(part: str) -> bool:
    marker = ""
    for line in part.split("\n"):
        stripped = line.strip()
        if not marker and stripped[:3] in ("```", "~~~"):
            marker = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
        elif marker and stripped.startswith(marker) and not stripped.strip(marker[0]):
            marker = ""
    return bool(marker)


@given(LINES, st.sampled_from([len, utf16_units]))
def test_parts_fit_are_balanced_and_lose_nothing(lines: list[str], measure: object) -> None:
    text = "\n".join(lines)
    parts = split_markdown(text, 120, measure)  # type: ignore[arg-type]
    assert all(measure(part) <= 120 and part.strip() for part in parts)  # type: ignore[operator]
    assert not any(_open_fences(part) for part in parts)
    marks = str.maketrans("", "", "`~python \n")
    assert "".join(parts).translate(marks) == text.translate(marks)


def test_a_short_answer_is_one_part() -> None:
    assert split_markdown("Hello\n\nthere", 3_500) == ["Hello\n\nthere"]
    assert split_markdown("", 3_500) == []
    assert split_markdown(" \n\n", 3_500) == []


def test_cuts_are_at_paragraphs_where_there_are_some() -> None:
    paragraphs = ["A sentence. " * 6] * 4
    parts = split_markdown("\n\n".join(paragraphs), 200)
    assert parts == ["\n\n".join(p for p in paragraphs[:2]).rstrip(), "\n\n".join(paragraphs[2:]).rstrip()]


def test_code_goes_on_in_the_next_part_in_its_language() -> None:
    first, *more = split_markdown("```python\n" + "\n".join(f"line {n}" for n in range(40)) + "\n```", 150)
    assert first.startswith("```python\n")
    assert first.endswith("\n```")
    assert all(part.startswith("```python\n") and part.endswith("\n```") for part in more)


def test_a_word_longer_than_a_part_is_cut() -> None:
    assert "".join(split_markdown("x" * 1000, 200)) == "x" * 1000


@given(st.text(max_size=40), st.integers(0, 40))
def test_a_caption_is_cut_as_telegram_counts_and_never_within_a_character(text: str, most: int) -> None:
    cut = cut_utf16(text, most)
    assert text.startswith(cut)
    assert utf16_units(cut) <= most
    rest = text[len(cut) :]
    assert not rest or utf16_units(cut + rest[0]) > most
