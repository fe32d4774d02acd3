"""What golden answers state."""

import pytest

from sandlot.audit.statement import contradiction, core_of, leaves_out, numbers_in, option_letters, same_core


@pytest.mark.parametrize(
    ("golden", "core"),
    [
        ("B) Paris", "B"),
        ("(B) Paris", "B"),
        ("B", "B"),
        ("The answer is (C).", "C"),
        ("3 * 4 = 12 and so\n#### 12", "12"),
        ("so \\boxed{7/2}", "7/2"),
        ("<think>1</think><answer> 9 </answer>", "9"),
        ("A cat sat down", "A cat sat down"),
        ("17", "17"),
    ],
)
def test_the_core_of_a_golden_answer_is_what_it_marks_or_the_letter_of_its_option(golden: str, core: str):
    assert core_of(golden) == core


@pytest.mark.parametrize(
    ("answer", "golden"),
    [
        ("B", "B) Paris"),
        ("b.", "B) Paris"),
        ("B) Rome", "B) Paris"),
        ("12", "3 * 4 = 12 and so\n#### 12"),
        ("12.0 apples", "12"),
        ('{"passed": true, "failed": 0}', "0"),
        ("It is paris, of course", "Paris"),
        ("12", "In 2024 there were 12 of them, and 3 more"),
    ],
)
def test_an_answer_that_may_state_what_golden_states_leaves_nothing_out(answer: str, golden: str):
    assert leaves_out(answer, golden) is None


@pytest.mark.parametrize(
    ("answer", "golden"),
    [
        ("A", "B) Paris"),
        ("A) Paris", "B) Paris"),
        ("-5", "5"),
        ("15", "5"),
        ("", "17"),
        ("I cannot help with that.", "Paris"),
        ("the service was down for a while", "billing had an outage of 55 minutes: disk full"),
        ("a careful, complete and well considered answer", "The harbour master closed the northern gate before the storm"),
    ],
)
def test_an_answer_without_what_golden_states_leaves_it_out(answer: str, golden: str):
    assert leaves_out(answer, golden) is not None


def test_a_single_value_of_the_key_that_is_part_of_a_long_golden_answer_may_be_the_answer():
    golden = "After the long siege of that summer the emperor moved his whole court to Ravenna"
    assert leaves_out("Ravenna", golden) is not None
    assert leaves_out("Ravenna", golden, {"city": "Ravenna"}) is None


def test_equal_values_do_not_contradict_and_others_do():
    assert contradiction("5.0", "5") is None
    assert contradiction("B) Rome", "B) Paris") is None
    assert contradiction("6", "5") == "golden states `5`, this states `6`"
    assert contradiction("not Paris", "Paris") is not None
    assert same_core("(B) Rome", "B. Paris")
    assert not same_core("A) Paris", "B) Paris")


def test_numbers_are_read_with_their_signs_and_options_with_their_letters():
    assert [float(number) for number in numbers_in("from 3-5 to -7, 1,200.5 or 3/4 and x2")] == [3, 5, -7, 1200.5, 0.75]
    assert option_letters("Which?\nA) one\nB) two\nC. three") == ["A", "B", "C"]
    assert option_letters("Is Dr. B) there?") == []
