"""Predicted prefixes against a twin that remembers every prompt and compares token by token."""

import hypothesis.strategies as st
from hypothesis import given

from sandlot.model.routing.prefixes import BLOCK_TOKENS, PredictedPrefixes, block_keys


def spelled(letters: str) -> bytes:
    """Each letter is a whole block, so that short texts have many blocks."""
    return b"".join(letter.encode() * (4 * BLOCK_TOKENS) for letter in letters)


def longest_common(asked: str, known: list[str]) -> int:
    """The slow way: the longest beginning of `asked` that one of the others begins with."""
    return max((count for count in range(len(asked) + 1) if any(each.startswith(asked[:count]) for each in known)), default=0)


texts = st.text("ab", max_size=8)


@given(st.lists(texts, max_size=12), st.lists(texts, max_size=4), texts)
def test_the_longest_prefix_is_found_computed_or_under_way(answered, under_way, asked):
    prefixes = PredictedPrefixes(10_000)
    for text in answered:
        prefixes.add(block_keys(spelled(text)))
    for text in under_way:
        prefixes.begin(block_keys(spelled(text)))
    hit = prefixes.match(block_keys(spelled(asked)))
    assert hit.warm == BLOCK_TOKENS * longest_common(asked, answered)
    assert hit.tokens == BLOCK_TOKENS * max(longest_common(asked, answered), longest_common(asked, under_way))


@given(st.lists(texts, max_size=30), st.integers(1, 8), texts)
def test_a_small_memory_only_shortens_what_is_found_and_keeps_the_newest(added, most, asked):
    prefixes = PredictedPrefixes(most * BLOCK_TOKENS)
    for text in added:
        prefixes.add(block_keys(spelled(text)))
        assert len(prefixes) <= most
        assert prefixes.match(block_keys(spelled(text))).warm == BLOCK_TOKENS * min(most, len(text))
    assert prefixes.match(block_keys(spelled(asked))).warm <= BLOCK_TOKENS * longest_common(asked, added)


@given(st.lists(st.tuples(texts, st.booleans()), max_size=20))
def test_what_is_under_way_ends_with_its_requests(asked):
    prefixes = PredictedPrefixes(10_000)
    for text, _ in asked:
        prefixes.begin(block_keys(spelled(text)))
    for text, over in asked:
        if over:
            prefixes.end(block_keys(spelled(text)))
    left = [text for text, over in asked if not over]
    for text, _ in asked:
        assert prefixes.match(block_keys(spelled(text))).computing == BLOCK_TOKENS * longest_common(text, left)


@given(texts, texts)
def test_keys_that_go_on_are_the_keys_of_the_whole(begun, more):
    whole = spelled(begun + more)
    assert block_keys(whole, "m", block_keys(spelled(begun), "m")) == block_keys(whole, "m")


def test_a_last_block_that_is_not_full_has_no_key_and_other_models_have_other_keys():
    assert len(block_keys(spelled("ab")[:-1])) == 1
    assert not set(block_keys(spelled("ab"), "one")) & set(block_keys(spelled("ab"), "two"))


def test_a_smaller_size_holds_from_the_next_block_on():
    prefixes = PredictedPrefixes(10_000)
    prefixes.add(block_keys(spelled("abcd")))
    prefixes.resize(2 * BLOCK_TOKENS)
    prefixes.add(block_keys(spelled("x")))
    assert len(prefixes) == 2


def test_what_was_used_before_a_missed_block_is_forgotten_too():
    prefixes = PredictedPrefixes(10_000)
    old, kept, new = (block_keys(spelled(text)) for text in ("old", "kept", "new"))
    for keys in (old, kept, new):
        prefixes.add(keys)
    prefixes.drop_older(kept[1:])  # only the first block of it was there
    assert [prefixes.match(keys).warm // BLOCK_TOKENS for keys in (old, kept, new)] == [0, 1, 3]
    prefixes.drop_older(old[:1])  # it is unknown already
    assert prefixes.match(new).warm == 3 * BLOCK_TOKENS
    prefixes.clear()
    assert prefixes.match(new).tokens == 0
