"""The prose of the guides stays easy to read: counts of all guides, with targets."""

from __future__ import annotations

import pytest

from tests.docs import prose

MOST_WORDS = 25_000  # of all pages for users, as `wc -w` counts; httpx has 9,700, structlog 10,500


@pytest.fixture(scope="module")
def counts() -> prose.Counts:
    return prose.count(prose.guides())


def test_the_guides_speak_to_the_reader(counts: prose.Counts) -> None:
    assert counts.you >= 15


def test_the_guides_say_what_happens_and_not_that_nothing_does(counts: prose.Counts) -> None:
    assert counts.nobody <= 1


def test_the_guides_have_sentences_and_no_semicolons(counts: prose.Counts) -> None:
    assert counts.semicolons <= 1


def test_few_sentences_of_the_guides_are_long(counts: prose.Counts) -> None:
    assert counts.long <= 5


def test_the_sentences_of_the_guides_have_actors(counts: prose.Counts) -> None:
    assert counts.passive <= 25


def test_the_guides_are_short() -> None:
    assert sum(map(prose.words_of, prose.guides())) <= MOST_WORDS


@pytest.mark.parametrize(
    ("sentence", "is_passive"),
    [
        ("The file is written once.", True),
        ("Runs are not always shown.", True),
        ("The call writes the file.", False),
        ("You need a speed that is indeed high.", False),
    ],
)
def test_a_form_of_be_and_a_participle_is_a_passive(sentence: str, is_passive: bool) -> None:
    assert (prose.Counts.of([sentence]).passive > 0) == is_passive


def test_code_tables_and_headings_are_no_prose() -> None:
    sentences = prose.sentences_of("README.md")

    assert not [each for each in sentences if "```" in each or "|" in each or each.startswith("#")]
    assert "You need Python 3.10 or later." in sentences
