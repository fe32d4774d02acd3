"""What siblings have written, against a slow obvious twin that keeps every token and counts votes anew."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from sandlot.model.engine.siblings import LONGEST, MOST_VOTES, Siblings

LENGTHS = (8, 4, 2)


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
@settings(max_examples=150, deadline=None)
def test_guesses_are_the_twins(prompt, texts, most):
    siblings, twin = Siblings(), Twin()
    root = siblings.join(spelled(prompt))
    twin.learn(prompt, len(prompt))
    for text in texts:
        assert siblings.join(spelled(prompt)) == root
        for end in range(1, len(text) + 1):  # a token at a time, as it is sampled
            known = [*prompt, *text[:end]]
            context = known[-LONGEST - 1 :]
            siblings.learn(root, spelled(context), 1)
            twin.learn(known, 1)
            guess = siblings.guess(root, spelled(known[-LONGEST:]), most)
            assert (guess.tokens, guess.kinds) == twin.guess(known, most)


def test_all_turns_of_a_rollout_belong_to_the_group_of_its_first_prompt():
    siblings = Siblings()
    root = siblings.join(spelled([1, 2, 3]), "a")
    assert siblings.join(spelled([1, 2, 3, 9, 9, 4, 5]), "a") == root
    assert siblings.join(spelled([1, 2, 4]), "b") != root


def test_what_a_session_has_sampled_is_not_learned_again_from_its_next_prompt():
    siblings = Siblings()
    root = siblings.join(spelled([1, 2, 3]), "a")
    siblings.learn(root, spelled([1, 2, 3, 7, 8]), 2, "a")
    assert siblings.guess(root, spelled([2, 3]), 1).kinds == [2 * MOST_VOTES]  # one vote
    siblings.join(spelled([1, 2, 3, 7, 8, 5, 6]), "a")
    assert siblings.guess(root, spelled([2, 3]), 1).kinds == [2 * MOST_VOTES]
    assert siblings.guess(root, spelled([7, 8]), 2).tokens == [5, 6]


def test_another_group_is_not_asked():
    siblings = Siblings()
    one, other = siblings.join(spelled([1, 2, 3, 4])), siblings.join(spelled([5, 2, 3, 6]))
    assert siblings.guess(one, spelled([2, 3]), 1).tokens == [4]
    assert siblings.guess(other, spelled([2, 3]), 1).tokens == [6]


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(few, max_size=20)), max_size=20), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_memory_is_bounded_and_the_newest_stay(texts, most):
    siblings = Siblings(max_runs=most)
    for number, text in texts:
        root = siblings.join(spelled([number, 9]))
        siblings.learn(root, spelled([number, 9, *text]), len(text))
        assert siblings.num_runs == sum(len(runs) for runs in siblings._groups.values()) <= most


def test_a_prompt_shorter_than_what_was_learned_of_its_session_is_no_error():
    siblings = Siblings()
    root = siblings.join(spelled([1, 2, 3]), "a")
    siblings.learn(root, spelled([1, 2, 3, *range(20)]), 20, "a")
    assert siblings.join(spelled([1, 2, 3, 4]), "a") == root
