"""The router's decisions, and its bookkeeping against a twin that recounts everything."""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sandlot.core.tokens import packed_ids, unpacked_ids
from sandlot.model.routing.prefixes import BLOCK_TOKENS
from sandlot.model.routing.reported import ReportedPrefixes
from sandlot.model.routing.router import Router, RouterConfig
from sandlot.model.wire.kv_events import BlockStored

CONFIG = RouterConfig(decode_cost=1.0, first_turn=16)


def ids(text: str) -> bytes:
    """Each letter is a block of 16 tokens."""
    return b"".join(letter.encode() * (4 * BLOCK_TOKENS) for letter in text)


def answer(router: Router, placed, text: str = "", **more) -> None:
    router.finish(placed, ids(text), num_sampled=16, **more)


def turn(router: Router, prompt: str, rollout: str = "", **more) -> int:
    """One request from beginning to end: the replica that took it."""
    placed = router.place(ids(prompt), rollout)
    answer(router, placed, **more)
    return placed.number


def test_a_prompt_goes_where_its_prefix_is_warm():
    router = Router(["a", "b", "c"], CONFIG)
    first = turn(router, "xxxx")
    router.place(ids("yyyyyy"))  # the others have work, too
    assert {turn(router, "xxxx" + end) for end in "pqr"} == {first}


def test_different_prompts_are_spread_over_idle_replicas():
    router = Router(["a", "b", "c"], CONFIG)
    assert {router.place(ids(letter * 4)).number for letter in "xyz"} == {0, 1, 2}
    assert [(replica.num_requests, replica.num_open) for replica in router.replicas] == [(1, 1)] * 3
    turn(router, "xxxx")
    assert (sum(replica.num_requests for replica in router.replicas), sum(replica.num_open for replica in router.replicas)) == (
        4,
        3,
    )


def test_a_rollout_stays_where_it_is_although_another_has_less_work():
    router = Router(["a", "b"], CONFIG)
    home = turn(router, "xxxxxx", "one")
    router.place(ids("xxxxxx" + "pq"))  # more work at home than at the other
    placed = router.place(ids("xxxxxx" + "y"), "one")
    assert placed.number == home
    assert placed.hit.warm == 6 * BLOCK_TOKENS


def test_a_rollout_leaves_when_its_replica_is_overrun():
    router = Router(["a", "b"], CONFIG)
    home = turn(router, "x", "one")
    for _ in range(40):
        router.place(ids("x" * 4), "")
    overrun = [replica.work for replica in router.replicas]
    assert overrun[1 - home] > 0  # the new ones were spread as well
    router.replicas[home].work += 10_000
    assert router.place(ids("xx"), "one").number == 1 - home


def test_members_of_a_group_wait_for_the_prompt_together_and_are_spread_when_there_are_many():
    router = Router(["a", "b"], CONFIG)
    first = router.place(ids("p" * 8), "0")
    followers = [router.place(ids("p" * 8), str(member)) for member in range(1, 4)]
    assert {placed.number for placed in followers} == {first.number}  # its prompt is being computed: no second copy
    assert all(placed.hit.computing == 8 * BLOCK_TOKENS for placed in followers)
    for placed in (first, *followers):
        answer(router, placed)
    members = [router.place(ids("p" * 8), str(member)).number for member in range(4, 36)]
    shares = Counter(members)
    assert set(shares) == {0, 1}
    assert (
        max(shares.values()) - min(shares.values()) <= 8 + 4
    )  # a copy of the prompt is worth eight turns here, four came before
    assert router.replicas[1 - first.number].prefixes.match(first.keys).tokens == 8 * BLOCK_TOKENS


def test_rollouts_that_wait_for_a_tool_count_as_work():
    router = Router(["a", "b"], CONFIG)
    for number in range(6):
        turn(router, "p", f"{number}")
    assert [replica.num_waiting for replica in router.replicas] == [3, 3]
    for number in range(6):
        router.release(f"{number}")
    assert [replica.num_waiting for replica in router.replicas] == [0, 0]


def test_new_weights_make_void_what_was_expected_of_that_replica_only():
    router = Router(["a", "b"], CONFIG)
    first, other = router.place(ids("xxxx")), router.place(ids("yyyy"))
    answer(router, first, version=1)
    answer(router, other, version=1)
    updated = router.place(ids("xxxx" + "z"))
    late = router.place(ids("xxxx" + "l"))
    assert updated.number == late.number == first.number
    answer(router, updated, version=2)
    answer(router, late, version=1)  # sampled before the update: nothing of it is there
    kept = router.replicas[first.number].prefixes
    assert kept.match(late.keys).warm == 4 * BLOCK_TOKENS  # what the newer reply has in common with it
    assert router.replicas[other.number].prefixes.match(other.keys).warm == 4 * BLOCK_TOKENS
    answer(router, router.place(ids("n" * 8), avoid={other.number}), version=3)
    assert kept.match(updated.keys).tokens == 0


def test_a_replica_that_died_gets_nothing_and_comes_back_with_an_empty_cache():
    router = Router(["a", "b"], CONFIG)
    home = turn(router, "xxxx", "one")
    router.remove(home)
    assert turn(router, "xxxx" + "y", "one") == 1 - home
    router.remove(1 - home)
    assert router.place(ids("xxxx"), "one") is None
    router.admit(home)
    placed = router.place(ids("xxxx"), "one")
    assert (placed.number, placed.hit.tokens) == (home, 0)


def test_a_request_avoids_replicas_that_have_failed_it():
    router = Router(["a", "b"], CONFIG)
    home = turn(router, "xxxx", "one")
    assert router.place(ids("xxxx"), "one", avoid={home}).number == 1 - home
    assert router.place(ids("xxxx"), "one", avoid={0, 1}) is None


def test_a_hit_that_is_smaller_than_expected_makes_void_what_is_older():
    router = Router(["a"], CONFIG)
    for prompt in ("old", "kept"):
        turn(router, prompt)
    turn(router, "kept", cached=0)  # a server that never reports hits is not believed
    assert router.place(ids("old")).hit.warm == 3 * BLOCK_TOKENS
    turn(router, "new", cached=0)
    turn(router, "new", cached=3 * BLOCK_TOKENS - 1)  # the last token of a prompt is always computed
    assert router.place(ids("old")).hit.warm == 3 * BLOCK_TOKENS
    turn(router, "kept", cached=BLOCK_TOKENS)
    assert router.place(ids("kept")).hit.warm == 4 * BLOCK_TOKENS  # this very request computed the rest again
    assert router.place(ids("old")).hit.warm == 0
    assert router.place(ids("new")).hit.warm == 3 * BLOCK_TOKENS


def test_the_sampled_tokens_are_part_of_the_next_prompts_prefix():
    router = Router(["a", "b"], CONFIG)
    answer(router, router.place(ids("ab"), "one"), "cd")
    placed = router.place(ids("abcde"), "one")
    assert placed.hit.warm == 3 * BLOCK_TOKENS  # the last sampled token was not computed, so its block is not whole


def test_round_robin_takes_turns():
    router = Router(["a", "b", "c"], RouterConfig(routing="round-robin"))
    assert [turn(router, "xx", "one") for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_a_quiet_rollout_is_forgotten_first():
    router = Router(["a", "b"], RouterConfig(most_rollouts=2))
    held = router.place(ids("x"), "busy")
    turn(router, "y", "quiet")
    turn(router, "z", "new")
    assert router.release("quiet") is None
    assert router.release("busy") == held.number


def stored(text: str, name: int = 1) -> BlockStored:
    tokens = unpacked_ids(ids(text))
    names = list(range(name, name + len(text)))
    return BlockStored(block_hashes=names, parent_block_hash=None, token_ids=tokens, block_size=BLOCK_TOKENS)


def test_what_a_replica_reports_counts_and_not_what_was_predicted():
    router = Router(["a", "b"], CONFIG)
    home = turn(router, "xxxx")
    reported = ReportedPrefixes(10_000)
    router.follow(home, reported)  # it has evicted the prompt already
    assert router.replicas[home].match(router.place(ids("xxxx"), avoid={home}).keys).warm == 0
    elsewhere = ReportedPrefixes(10_000)
    elsewhere.apply([stored("yyyy")])  # what another process has sent there
    router.follow(1 - home, elsewhere)
    placed = router.place(ids("yyyyz"), avoid={home})
    assert placed.hit.warm == 4 * BLOCK_TOKENS
    answer(router, placed)
    assert router.replicas[1 - home].match(placed.keys).warm == 5 * BLOCK_TOKENS  # its report is on its way
    router.follow(1 - home, None)  # it reports nonsense: the prediction goes on from what was sent
    assert router.replicas[1 - home].match(placed.keys).warm == 5 * BLOCK_TOKENS


def test_of_equal_replicas_the_one_that_reports_to_hold_less_gets_a_new_prompt():
    router = Router(["full", "empty"], CONFIG)
    full = ReportedPrefixes(10_000)
    full.apply([stored("yyyy")])
    router.follow(0, full)
    router.follow(1, ReportedPrefixes(10_000))
    assert router.place(ids("x")).number == 1


def test_reports_end_when_a_replica_goes_down_and_new_weights_void_only_own_replies():
    router = Router(["a"], CONFIG)
    reported = ReportedPrefixes(10_000)
    router.follow(0, reported)
    turn(router, "xx", version=1)
    reported.apply([stored("yy")])
    turn(router, "zz", version=2)
    assert [router.place(ids(text)).hit.warm // BLOCK_TOKENS for text in ("xx", "yy", "zz")] == [0, 2, 2]
    router.remove(0)
    assert router.replicas[0].reported is None
    router.follow(0, reported)  # a late reply
    assert router.replicas[0].reported is None


def prompt_tokens_computed(*, reports: bool, first_turn: int, blocks: int, members: int) -> int:
    """Groups that arrive one member after another while the first ones decode; a report follows each prompt that was computed."""
    router = Router(["a", "b", "c"], RouterConfig(first_turn=first_turn))
    views = [ReportedPrefixes(2**20) for _ in router.replicas]
    held: list[set[int]] = [set() for _ in views]
    computed = 0
    for group in range(8):
        prompt = packed_ids(range(group * 10_000, group * 10_000 + blocks * BLOCK_TOKENS))
        under_way = []
        for member in range(members):
            if reports:
                for number, view in enumerate(views):
                    router.follow(number, view)
            placed = router.place(prompt, f"{group}/{member}", max_tokens=first_turn)
            under_way.append(placed)
            if group not in held[placed.number]:
                held[placed.number].add(group)
                computed += len(placed.keys) * BLOCK_TOKENS
                names = list(range(group * 1000, group * 1000 + blocks))
                tokens = unpacked_ids(prompt)
                event = BlockStored(block_hashes=names, parent_block_hash=None, token_ids=tokens, block_size=BLOCK_TOKENS)
                views[placed.number].apply([event])
        for placed in under_way:
            router.finish(placed, packed_ids([1] * first_turn))
            router.release(placed.rollout)
    return computed


@pytest.mark.parametrize("first_turn", [16, 64, 256])
@pytest.mark.parametrize(("blocks", "members"), [(128, 4), (128, 16), (8, 4), (2, 8)])
def test_a_report_of_a_prompt_whose_request_still_decodes_scatters_no_group(first_turn, blocks, members):
    predicted = prompt_tokens_computed(reports=False, first_turn=first_turn, blocks=blocks, members=members)
    reported = prompt_tokens_computed(reports=True, first_turn=first_turn, blocks=blocks, members=members)
    assert reported <= predicted


def test_what_is_reported_as_stored_is_no_longer_work():
    router = Router(["a"], CONFIG)
    view = ReportedPrefixes(10_000)
    router.follow(0, view)
    placed = router.place(ids("wxyz") + packed_ids([1]))
    assert router.replicas[0].work == placed.work == 4 * BLOCK_TOKENS + 1 + 16
    view.apply([stored("wx")])
    router.follow(0, view)
    assert router.replicas[0].work == placed.work == 2 * BLOCK_TOKENS + 1 + 16
    tokens = unpacked_ids(ids("yz"))
    view.apply([BlockStored(block_hashes=[8, 9], parent_block_hash=2, token_ids=tokens, block_size=BLOCK_TOKENS)])
    router.follow(0, view)
    router.follow(0, view)
    assert router.replicas[0].work == placed.work == 16  # only sampling is left
    router.remove(0)
    router.finish(placed)
    assert router.replicas[0].work == 0


moves = st.lists(
    st.tuples(st.sampled_from(["place", "answer", "fail", "release", "remove", "admit", "update", "report"]), st.integers(0, 7)),
    max_size=60,
)


@given(moves)
def test_the_books_balance_whatever_happens(moves):
    router = Router(["a", "b", "c"], RouterConfig(decode_cost=1.0, first_turn=16, cache_tokens=20 * BLOCK_TOKENS))
    open_: list = []
    version = 1
    for move, number in moves:
        match move:
            case "place":
                placed = router.place(ids("ab"[number % 2] * (1 + number)), str(number % 4))
                up = [each.is_up for each in router.replicas]
                assert (placed is None) is (not any(up))
                if placed is not None:
                    assert up[placed.number]
                    open_.append(placed)
            case "answer" if open_:
                answer(router, open_.pop(number % len(open_)), "c", version=version)
            case "fail" if open_:
                router.withdraw(open_.pop(number % len(open_)))
            case "release":
                router.release(str(number % 4))
            case "remove" | "admit":
                getattr(router, move)(number % 3)
            case "update":
                version += 1
            case "report":
                view = ReportedPrefixes(20 * BLOCK_TOKENS)
                view.apply([stored("ab"[number % 2] * (1 + number))])
                router.follow(number % 3, view)
        for place, replica in enumerate(router.replicas):
            under_way = [placed for placed in open_ if placed.number == place]
            assert replica.num_open == len(under_way)
            assert abs(replica.work - sum(placed.work for placed in under_way)) < 1e-6
            assert all(placed.num_to_compute >= 0 for placed in under_way)
            assert set(replica.prefilling) <= set(under_way)
            assert replica.num_waiting >= 0
            assert len(replica.prefixes) <= 20
    for rollout in range(4):
        router.release(str(rollout))
    assert [replica.num_waiting for replica in router.replicas] == [0, 0, 0]


def common(left: str, right: str) -> int:
    return next(
        (place for place, pair in enumerate(zip(left, right, strict=False)) if len(set(pair)) == 2), min(len(left), len(right))
    )


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=6), st.booleans()), max_size=25))
def test_a_request_goes_where_a_twin_that_compares_all_prompts_finds_the_lowest_cost(requests):
    router = Router(["a", "b", "c"], RouterConfig(decode_cost=2.0, first_turn=16))
    answered: list[list[str]] = [[], [], []]
    under_way: list[list[tuple[str, int]]] = [[], [], []]
    """Prompts, and the tokens of each that were missing when it was placed."""
    for text, is_answered in requests:
        costs = []
        for place in range(3):
            warm = max((common(text, each) for each in answered[place]), default=0)
            known = max((common(text, each) for each, _ in under_way[place]), default=0)
            work = sum(missing + 2 * 16 for _, missing in under_way[place])
            costs.append(BLOCK_TOKENS * (len(text) - max(warm, known)) + work - BLOCK_TOKENS * max(0, known - warm))
        placed = router.place(ids(text))
        assert costs[placed.number] == min(costs)
        if is_answered:
            answer(router, placed)
            answered[placed.number].append(text)
        else:
            under_way[placed.number].append((text, len(text) * BLOCK_TOKENS - placed.hit.tokens))
