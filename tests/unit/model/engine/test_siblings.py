"""What siblings have written, against a slow obvious twin that keeps every token and counts votes anew."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import sandlot.model.engine.siblings as siblings_module
from sandlot.model.engine.siblings import LONGEST, MOST_VOTES, NUM_KINDS, Siblings

LENGTHS = (8, 4, 2)
RATES = [0.3 + 0.7 * (kind % 5) / 4 for kind in range(NUM_KINDS)]


def spelled(ids: list[int]) -> bytes:
    return np.asarray(ids, np.int32).tobytes()


class Twin:
    """All places at which a token was learned, with what stood before it."""

    def __init__(self) -> None:
        self.places: list[tuple[list[int], int]] = []

    def learn(self, ids: list[int], num_new: int) -> None:
        for index in range(len(ids) - num_new, len(ids)):
            self.places.append((ids[:index], ids[index]))

    def guess(self, ids: list[int], most: int) -> tuple[list[int], list[int]]:
        tokens, kinds = [], []
        while len(tokens) < most:
            known = ids + tokens
            for number, length in enumerate(LENGTHS):
                token, votes = None, 0
                for before, followed in self.places:
                    if len(known) >= length and before[-length:] == known[-length:] and len(before) >= length:
                        if followed == token:
                            votes = min(votes + 1, MOST_VOTES)
                        elif votes > 1:
                            votes -= 1
                        else:
                            token, votes = followed, 1
                if token is not None:
                    tokens.append(token)
                    kinds.append(number * MOST_VOTES + votes - 1)
                    break
            else:
                break
        return tokens, kinds


few = st.integers(0, 2)


@given(st.lists(few, min_size=1, max_size=12), st.lists(st.lists(few, max_size=30), max_size=5), st.integers(0, 16))
def test_guesses_are_the_twins(prompt, texts, most):
    siblings, twin = Siblings(), Twin()
    group = siblings.join(spelled(prompt))
    twin.learn(prompt, len(prompt))
    for text in texts:
        assert siblings.join(spelled(prompt)) == group
        for end in range(1, len(text) + 1):  # a token at a time, as it is sampled
            known = [*prompt, *text[:end]]
            context = known[-LONGEST - 1 :]
            siblings.learn(group, spelled(context), 1)
            twin.learn(known, 1)
            guess = siblings.guess(group, spelled(known[-LONGEST:]), most)
            assert (guess.tokens, guess.kinds) == twin.guess(known, most)
            likely = siblings.guess(group, spelled(known[-LONGEST:]), most, RATES, 0.2)
            num_likely = sum(chance >= 0.2 for chance in np.cumprod([RATES[kind] for kind in guess.kinds]))
            assert (likely.tokens, likely.kinds) == (guess.tokens[:num_likely], guess.kinds[:num_likely])


def votes(siblings: Siblings, group: bytes, ids: list[int]) -> int:
    """Votes for what follows two tokens."""
    (kind,) = siblings.guess(group, spelled(ids), 1).kinds
    return kind - 2 * MOST_VOTES + 1


def write(siblings: Siblings, group: bytes, prompt: list[int], completion: list[int]) -> list[int]:
    """A request from its prompt to its end; returns its text."""
    siblings.learn(group, spelled([*prompt, *completion]), len(completion))
    siblings.end(group, spelled([*prompt, *completion]))
    return [*prompt, *completion]


@pytest.mark.parametrize("session", ["", "a"])
def test_all_turns_of_a_rollout_belong_to_the_group_of_its_first_prompt(session):
    siblings = Siblings()
    group = siblings.join(spelled([1, 2, 3]), session)
    text = [1, 2, 3]
    for turn in range(3):
        text = [*write(siblings, group, text, [9, 9, 9 + turn]), 4, 5]
        assert siblings.join(spelled(text), session) == group
    assert siblings.join(spelled([1, 2, 4]), "b") != group


def test_a_session_keeps_its_group_if_its_completion_is_left_out_of_the_next_prompt():
    siblings = Siblings()
    group = siblings.join(spelled([1, 2, 3]), "a")
    write(siblings, group, [1, 2, 3], [7, 8])
    assert siblings.join(spelled([1, 2, 3, 5, 6]), "a") == group
    assert votes(siblings, group, [1, 2]) == 1
    assert siblings.join(spelled([4, 2, 3, 5, 6]), "a") != group  # another conversation


def test_a_prompt_that_begins_as_another_one_is_no_sibling():
    siblings = Siblings()
    group = siblings.join(spelled([1]))
    write(siblings, group, [1], [2, 3])
    longer = [siblings.join(spelled([1, number, 5, 6])) for number in range(4, 8)]
    assert len({group, *longer}) == 5
    assert siblings.guess(longer[0], spelled([5, 6]), 1).tokens == []


@pytest.mark.parametrize("session", ["", "a"])
def test_each_token_of_a_conversation_is_learned_once(session):
    siblings = Siblings()
    group, text = siblings.join(spelled([1, 2, 3]), session), [1, 2, 3]
    for turn in range(1, 6):
        text = [*write(siblings, group, text, [10 * turn, 10 * turn + 1]), 10 * turn + 2]
        siblings.join(spelled(text), session)
    assert [votes(siblings, group, text[at : at + 2]) for at in range(len(text) - 2)] == [1] * (len(text) - 2)


@pytest.mark.parametrize("session", ["", "a"])
def test_what_a_turn_has_read_is_learned_after_many_completions_of_its_prompt(session):
    siblings = Siblings()
    prompt = [1, 2, 3]
    group = siblings.join(spelled(prompt), session)
    for number in range(8):
        assert siblings.join(spelled(prompt), session) == group
        write(siblings, group, prompt, [number] * 20)
    siblings.join(spelled([*prompt, *[5] * 20, 7, 8, 9]), session)
    assert siblings.guess(group, spelled([7, 8]), 1).tokens == [9]
    assert votes(siblings, group, [1, 2]) == 1


def test_another_group_is_not_asked():
    siblings = Siblings()
    one, other = siblings.join(spelled([1, 2, 3, 4])), siblings.join(spelled([5, 2, 3, 6]))
    assert siblings.guess(one, spelled([2, 3]), 1).tokens == [4]
    assert siblings.guess(other, spelled([2, 3]), 1).tokens == [6]


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(few, max_size=20)), max_size=20), st.integers(1, 60), st.integers(0, 6))
def test_memory_is_bounded(texts, most, num_in_use):
    groups: list[bytes] = []
    siblings = Siblings(lambda: groups[:num_in_use], max_runs=most)
    for number, text in texts:
        group = siblings.join(spelled([number, 9]))
        groups.append(group)
        siblings.learn(group, spelled([number, 9, *text]), len(text))
        assert siblings.num_runs == sum(len(each.runs) for each in siblings._groups.values()) <= most
        assert {group, *groups[:num_in_use]} <= siblings._groups.keys()


def test_groups_in_use_are_kept_and_the_oldest_others_are_forgotten():
    in_use: list[bytes] = []
    siblings = Siblings(lambda: in_use, max_runs=90)
    running, old, new = (siblings.join(spelled(list(range(at, at + 10)))) for at in (100, 200, 300))
    in_use.append(running)
    siblings.join(spelled(list(range(400, 420))))
    assert siblings._groups.keys() >= {running, new}
    assert old not in siblings._groups
    assert siblings.guess(running, spelled([100, 101]), 2).tokens == [102, 103]


def test_a_group_too_large_forgets_what_was_written_longest_ago():
    siblings = Siblings(max_runs=100)
    group = siblings.join(spelled([1, 2, 3]))
    text = [1, 2, 3, *range(100, 200)]
    for end in range(4, len(text) + 1):
        siblings.learn(group, spelled(text[max(end - LONGEST - 1, 0) : end]), 1)
        siblings.learn(group, spelled([1, 2, 3]), 1)  # others still write this
    assert siblings.guess(group, spelled([197, 198]), 1).tokens == [199]
    assert siblings.guess(group, spelled([100, 101]), 1).tokens == []
    assert siblings.guess(group, spelled([1, 2]), 1).tokens == [3]


def test_a_small_group_grows_beside_a_large_one_in_use():
    in_use: list[bytes] = []
    siblings = Siblings(lambda: in_use, max_runs=300)
    large = siblings.join(spelled(list(range(1000, 1100))))
    in_use.append(large)
    small = siblings.join(spelled(list(range(50))))
    assert siblings.guess(small, spelled([0, 1]), 40).tokens == list(range(2, 42))
    assert siblings.guess(large, spelled([1096, 1097]), 2).tokens == [1098, 1099]


def test_sessions_of_a_forgotten_group_meet_again_and_learn_what_it_forgot():
    siblings = Siblings(max_runs=100)
    prompt = list(range(10))
    group = siblings.join(spelled(prompt), "a")
    assert siblings.join(spelled(prompt), "b") == group
    siblings.join(spelled(list(range(100, 140))))
    assert group not in siblings._groups
    assert siblings.join(spelled([*prompt, 50, 51]), "a") == group
    assert siblings.join(spelled([*prompt, 60, 61]), "b") == group
    assert siblings.guess(group, spelled([0, 1]), 10).tokens[:8] == list(range(2, 10))
    assert siblings.guess(group, spelled([9, 60]), 1).tokens == [61]
    assert siblings.join(spelled(prompt), "c") == group


def test_names_are_bounded():
    siblings = Siblings()
    for number in range(siblings_module._MAX_NAMES + 10):
        group = siblings.join(spelled([number]), str(number))  # too short for a run
        write(siblings, group, [number], [1])
    for names in (siblings._groups, siblings._texts, siblings._sessions):
        assert len(names) == siblings_module._MAX_NAMES


def test_a_prompt_shorter_than_what_was_learned_of_its_session_is_no_error():
    siblings = Siblings()
    group = siblings.join(spelled([1, 2, 3]), "a")
    write(siblings, group, [1, 2, 3], list(range(20)))
    assert siblings.join(spelled([1, 2, 3, 4]), "a") == group
    assert siblings.join(spelled([1, 2]), "a") != group
