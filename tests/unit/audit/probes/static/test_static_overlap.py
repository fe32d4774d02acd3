"""Held-out tasks that repeat training tasks."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from builders.static_cases import case_of, found
from sandlot.audit.finding import Confidence, Severity
from sandlot.audit.probes.static import overlap
from sandlot.core.task import Task


def task(name: str, prompt: str, split: str, *, key=None, data=None) -> Task:
    return Task(name, prompt=prompt, split=split, key={"answer": 7} if key is None else key, data=data or {})


def asked(train: list[str], heldout: list[str], **fields) -> tuple[Task, ...]:
    named = [task(f"t{at}", text, "train", **fields) for at, text in enumerate(train)]
    return (*named, *(task(f"h{at}", text, "heldout", **fields) for at, text in enumerate(heldout)))


async def test_the_same_prompt_in_both_splits_is_confirmed():
    (finding,) = await found(
        overlap.PROBE, case_of(tasks=asked(["What is 1 + 1?", "What is 2 + 5?"], ["What is 2 + 5?", "9 - 2?"]))
    )
    assert (finding.code, finding.standing, finding.severity) == ("D12.same", Confidence.CONFIRMED, Severity.HIGH)
    assert finding.count == 1
    assert finding.witness is not None
    assert (finding.witness.inputs["train"], finding.witness.inputs["heldout"]) == ("t1", "h0")


async def test_case_spaces_and_punctuation_are_no_difference():
    (finding,) = await found(overlap.PROBE, case_of(tasks=asked(["What is 2+5?"], ["what is  2+5"])))
    assert finding.standing is Confidence.CONFIRMED
    assert "except for case" in finding.title


async def test_the_same_prompt_over_other_data_is_another_question():
    train = task("t", "Close the books.", "train", data={"month": 1})
    heldout = task("h", "Close the books.", "heldout", data={"month": 2})
    assert await found(overlap.PROBE, case_of(tasks=(train, heldout))) == []


async def test_the_same_prompt_in_worlds_that_are_drawn_may_be_another_question():
    source = "@env.setup\ndef put(world, task):\n    world.state = world.rng.random()\n"
    tasks = asked(["Solve the maze."], ["Solve the maze."], key={})
    assert await found(overlap.PROBE, case_of(source, tasks=tasks)) == []
    (sure,) = await found(overlap.PROBE, case_of(tasks=tasks))
    assert sure.standing is Confidence.CONFIRMED


async def test_repeats_by_chance_have_low_severity():
    train = [f"What is {a} + 1?" for a in range(300)]
    heldout = [f"What is {a} + 2?" for a in range(299)] + ["What is 5 + 1?"]
    (finding,) = await found(overlap.PROBE, case_of(tasks=asked(train, heldout)))
    assert (finding.count, finding.severity) == (1, Severity.LOW)


async def test_a_long_question_with_one_word_changed_is_a_lead_if_the_key_is_the_same():
    rng = Random(0)
    words = [f"w{rng.randrange(10_000)}" for _ in range(400)]
    story = " ".join(words)
    changed = " ".join([*words[:200], "other", *words[201:]])
    far = " ".join(f"v{rng.randrange(10_000)}" for _ in range(400))
    tasks = asked([story, far + " x"], [changed, far[::-1]])
    (finding,) = await found(overlap.PROBE, case_of(tasks=tasks))
    assert (finding.code, finding.standing, finding.count) == ("D12.near", Confidence.LEAD, 1)
    other = (task("t", story, "train"), task("h", changed, "heldout", key={"answer": 8}))
    assert await found(overlap.PROBE, case_of(tasks=other)) == []


async def test_a_template_with_other_numbers_is_another_question():
    words = "Please add the following two numbers carefully and reply with the number alone and nothing else: "
    train = [f"{words}{a} + {a * 7 % 90}" for a in range(10, 60)]
    heldout = [f"{words}{a} + {a * 11 % 90}" for a in range(60, 90)]
    assert await found(overlap.PROBE, case_of(tasks=asked(train, heldout))) == []


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9), min_size=1, max_size=6), st.data())
def test_near_twins_are_those_that_comparing_everything_finds(texts, data):
    others = data.draw(st.lists(st.sampled_from(texts), max_size=4))
    tasks = asked([" ".join(text) for text in texts], [" ".join([*text, "a"]) for text in others])
    train, heldout = [t for t in tasks if t.split == "train"], [t for t in tasks if t.split == "heldout"]
    pieces = {t.id: overlap._pieces(t) for t in tasks}
    often = {p: sum(p in each for each in pieces.values()) for each in pieces.values() for p in each}
    kept = {name: frozenset(p for p in each if often[p] <= len(tasks) / 2) for name, each in pieces.items()}
    slow = {h.id for h in heldout if any(overlap.jaccard(kept[h.id], kept[t.id]) >= overlap.NEAR for t in train)}
    assert {twin.heldout.id for twin in overlap.near_twins(train, heldout)} == slow


async def test_one_split_alone_cannot_overlap():
    assert overlap.PROBE.applies(case_of(tasks=asked(["a"], []))) == "there is only one split"
