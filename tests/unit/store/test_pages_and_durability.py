"""Pages of a transcript fit the bus; a database that forgets is called what it is."""

from __future__ import annotations

from hermes_gateway.store.conversations import cut_page
from hermes_gateway.store.health import judge_durability


def rows(*sizes: int) -> list[dict[str, object]]:
    return [{"body": "x" * size} for size in sizes]


def test_pages_are_cut_by_bytes_and_by_number() -> None:
    assert cut_page(rows(), 10) == ([], False)
    assert [len(part) for part in [cut_page(rows(1, 1, 1), 2)[0]]] == [2]
    assert cut_page(rows(1, 1, 1), 2)[1]
    page, more = cut_page(rows(300_000, 300_000, 1), 10)
    assert (len(page), more) == (1, True)


def test_one_message_always_fits() -> None:
    page, more = cut_page(rows(500_000), 10)
    assert (len(page), more) == (1, False)


def test_durability() -> None:
    assert judge_durability({"fsync": "on", "full_page_writes": "on"}) is None
    problem = judge_durability({"fsync": "off", "full_page_writes": "on"})
    assert problem is not None
    assert "fsync" in problem
