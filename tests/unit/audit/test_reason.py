"""Why an answer that scores is wrong."""

from random import Random

import pytest

from sandlot.audit.reason import ERROR_RATE, ReasonKind, beyond_chance, difference, omission


def test_an_answer_is_wrong_by_what_it_leaves_out_or_contradicts():
    assert str(omission("", "17")) == "leaves out what golden states: golden states `17`, and it does not"
    assert omission("17 of them", "17") is None
    reason = difference("18", "17")
    assert reason is not None
    assert reason.kind is ReasonKind.CONTRADICTS


@pytest.mark.parametrize(
    ("right", "keys", "options"),
    [(3, "ABCDABCDABCD", 4), (8, "AAAAAAAAABCD", 4), (12, "AAAAAAAAAAAA", 4), (5, "ABCDABCD", 4)],
)
def test_what_options_and_the_frequency_of_a_key_allow_is_chance(right: int, keys: str, options: int):
    assert beyond_chance(right, len(keys), options=options, keys=list(keys), tests=30) is None


def test_one_answer_right_for_nearly_all_of_many_keys_is_not_chance():
    reason = beyond_chance(11, 12, options=4, keys=list("ABCDABCDABCD"), tests=30)
    assert reason is not None
    assert reason.why.startswith("right for 11 of 12 tasks with 4 different keys, the most frequent on 3; chance allows 25%")


def test_guesses_at_a_sound_grader_pass_for_a_defect_no_more_often_than_the_error_rate():
    rng, wrong, times = Random(7), 0, 400
    for _ in range(times):
        keys = [rng.choice("ABCD") for _ in range(12)]
        right = sum(rng.randrange(4) == 0 for _ in keys)  # a guess that has nothing to do with the keys
        wrong += beyond_chance(right, len(keys), options=4, keys=keys) is not None
    assert wrong <= 3 * ERROR_RATE * times
