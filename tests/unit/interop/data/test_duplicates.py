"""Duplicates, near duplicates, and training rows that contain held-out ones."""

from random import Random

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.data.duplicates import dedupe
from sandlot.interop.data.rows import DataRow, RowProvenance

WORDS = [f"word{number}" for number in range(4000)]


def rows(*values, file="a"):
    values = [value if isinstance(value, dict) else {"text": value} for value in values]
    return [DataRow(value, RowProvenance(file, number, "")) for number, value in enumerate(values, 1)]


def found(listed, **options):
    return [(each.kind.value, each.row, each.of) for each in dedupe(listed, **options)[1].duplicates]


def text(seed: int, length: int = 60) -> str:
    return " ".join(Random(seed).choices(WORDS, k=length))


def changed(original: str, share: float, seed: int = 0) -> str:
    rng = Random(seed)
    words = original.split()
    for place in rng.sample(range(len(words)), int(share * len(words))):
        words[place] = f"other{place}"
    return " ".join(words)


def test_case_spacing_and_ids_do_not_make_a_row_new():
    listed = rows({"id": "1", "text": "What is  2+2?"}, {"id": "2", "text": "what is 2+2"}, {"id": "3", "text": "What is 2+3?"})
    assert found(listed) == [("exact", "a:2", "a:1")]


def test_near_duplicates_are_found_and_others_are_not():
    original = text(1)
    assert found(rows(original, changed(original, 0.03))) == [("near", "a:2", "a:1")]
    assert found(rows(original, changed(original, 0.3))) == []
    assert found(rows(original, text(2))) == []


def test_of_a_thousand_texts_exactly_the_planted_copies_are_found():
    originals = [text(seed) for seed in range(1000)]
    copies = [changed(originals[seed], 0.03, seed) for seed in range(0, 1000, 50)]
    kept, report = dedupe(rows(*originals, *copies))
    assert report.kinds == {"near": 20}
    assert [each.of for each in report.duplicates] == [f"a:{seed + 1}" for seed in range(0, 1000, 50)]
    assert len(kept) == 1000


def test_a_held_out_question_inside_a_longer_text_is_found():
    question = text(5, 20)
    listed = rows(f"{text(6)} {question} {text(7)}", text(8))
    assert found(listed, against=rows(question, file="heldout")) == [("contaminated", "a:1", "heldout:1")]


def test_rows_of_the_held_out_split_stay_and_those_that_repeat_them_go():
    question = text(9)
    listed = rows(
        {"text": question, "split": "train"}, {"text": question, "split": "heldout"}, {"text": text(10), "split": "train"}
    )
    assert found(listed) == [("contaminated", "a:1", "a:2")]


def test_short_held_out_answers_say_nothing():
    assert found(rows("yes it is", "the answer is yes it is"), against=rows("yes it is", file="h")) == []
    assert found(rows("so what is the capital of France please"), against=rows("What is the capital of France?", file="h")) != []


def test_only_the_named_fields_are_compared():
    listed = rows({"prompt": "a b c d", "note": "x"}, {"prompt": "a b c d", "note": "y"})
    assert found(listed) == []
    assert found(listed, fields=["prompt"]) == [("exact", "a:2", "a:1")]
    with pytest.raises(ConfigError, match="no field `promt`"):
        found(listed, fields=["promt"])


def test_rows_without_words_are_kept():
    assert found(rows({"n": 1}, {"n": 1}, {"text": "..."})) == []


def test_many_copies_of_one_text_do_not_take_quadratic_time():
    base = text(3, 30)
    listed = rows(*(f"{base} {number} {text(number, 12)}" for number in range(1000)))
    assert len(dedupe(listed, threshold=0.95)[0]) == 1000


def test_a_similarity_that_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="similarity"):
        dedupe([], threshold=0.1)
