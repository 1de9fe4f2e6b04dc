"""The addresses that ``mindsummary view`` prints."""

from __future__ import annotations

from urllib.parse import parse_qs

from mindsummary_lightning.viewer.addresses import page_addresses


def test_the_pages_of_a_run_are_told_its_path() -> None:
    pages = dict(page_addresses("http://127.0.0.1:8080", "secret", "./digits/a b&c"))

    route, _, query = pages["scalars"].partition("#")[2].partition("?")
    assert route == "/train-manage/scalar"
    assert parse_qs(query) == {"train_id": ["./digits/a b&c"], "summaryPath": ["./digits/a b&c"]}
    assert pages["runs"] == "http://127.0.0.1:8080/secret/#/summary-manage"
