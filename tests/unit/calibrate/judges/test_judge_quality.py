"""Judges of known vices: each is found out by the probe that is for it, and a good one passes."""

import hashlib
import json
from random import Random

import msgspec
import pytest

from sandlot.calibrate.judges.gates import Gates, GateState, Validation, judge_gates
from sandlot.calibrate.judges.items import JudgedItem, checks_of, example_items, labelled_items, run_items
from sandlot.calibrate.judges.judge import MORE_CANARIES, PADDING, Probing, measure_judge
from sandlot.core.errors import ConfigError, GradeError
from sandlot.core.ports.grading import Judgement
from sandlot.core.rubric import JudgeCheck
from sandlot.core.stats.agreement import rank_change
from sandlot.grade.judge import CANARIES
from sandlot.run.config import RunConfig
from sandlot.run.run import run_config
from sandlot.wiring.config import ModelConfig

KNOWN = dict([*CANARIES, *MORE_CANARIES])


class Told:
    """A judge that reads the truth off the view, except where its vice has it otherwise."""

    name = "told"

    def __init__(self, vice=None, batch_vice=None):
        self.vice = vice
        self.batch_vice = batch_vice
        self.asked = 0

    async def ask(self, question, choices, view, votes):
        self.asked += 1
        right = KNOWN.get(question, "yes" if "truly" in " ".join(view.values()) else "no")
        said = self.vice(question, tuple(choices), dict(view), right, self.asked) if self.vice else right
        return Judgement(verdicts=(said,) * votes)

    async def ask_several(self, criteria, view):
        said = [(await self.ask(each.question, each.choices, view, 1)).verdicts[0] for each in criteria]
        return self.batch_vice(criteria, said) if self.batch_vice else said


def items(count=60, raters=2, noise=0.0) -> list[JudgedItem]:
    rng = Random(1)

    def label(truth):
        return truth if rng.random() >= noise else {"yes": "no", "no": "yes"}[truth]

    found = []
    for number in range(count):
        truth = "yes" if number % 3 else "no"
        view = {"task": f"Say it, {number}.", "answer": f"It is {'truly' if truth == 'yes' else 'hardly'} so, {number}."}
        labels = tuple(label(truth) for _ in range(raters))
        found.append(
            JudgedItem(check="so" if number % 2 else "it", question="Is it so?", choices=("no", "yes"), view=view, labels=labels)
        )
    return found


async def measured(vice=None, asked=None, **probing):
    judge = Told(vice)
    quality = await measure_judge([judge] * 3, items() if asked is None else asked, Probing(repeats=3, **probing))
    return quality, {gate.name: gate.standing for gate in judge_gates(quality, Gates())}


async def batched(batch_vice=None, **probing):
    judge = Told(None, batch_vice)
    quality = await measure_judge([judge], items(), Probing(repeats=2, **probing), judge.ask_several)
    return quality, failed({gate.name: gate.standing for gate in judge_gates(quality, Gates())})


async def test_several_criteria_in_one_call_change_nothing_for_a_good_judge():
    quality, bad = await batched()
    assert bad == set()
    assert (quality.batched.asked, quality.batched.better, quality.batched.worse) == (50, 0, 0)
    assert (quality.shuffled.asked, quality.shuffled.share.value) == (50, 0.0)


async def test_one_who_is_kinder_to_many_criteria_than_to_one_is_found_out():
    quality, bad = await batched(lambda criteria, said: [each.choices[-1] for each in criteria])
    assert bad == {"several at once"}
    assert (quality.batched.better, quality.batched.worse) == (16, 0)


async def test_one_who_says_yes_to_whatever_stands_first_is_swayed_by_the_order_of_criteria():
    quality, bad = await batched(lambda criteria, said: ["yes", *["no"] * (len(criteria) - 1)])
    assert {"several at once", "order of criteria"} <= bad
    assert quality.shuffled.share.value > 0.2


async def test_a_batch_nobody_can_read_is_counted_as_unreadable():
    def torn(criteria, said):
        raise GradeError("half a reply", kind="unparsable")

    quality, bad = await batched(torn)
    assert "readable replies" in bad
    assert quality.batched.asked == 0


async def test_items_that_share_a_question_keep_their_own_choices_in_a_batch():
    class Best:
        name = "best"

        async def ask(self, question, choices, view, votes):
            return Judgement(verdicts=(choices[-1],) * votes)

        async def ask_several(self, criteria, view):
            return [each.choices[-1] for each in criteria]

    graded = [
        JudgedItem(check="it", question="Is it so?", choices=choices, view={"answer": str(choices)}, labels=())
        for choices in (("no", "yes"), ("wrong", "fair", "right"))
    ]
    quality = await measure_judge([Best()], graded, Probing(repeats=2), Best().ask_several)
    assert (quality.batched.asked, quality.batched.better, quality.batched.worse) == (2, 0, 0)


async def test_batches_of_one_are_left_out():
    quality, bad = await batched(lambda criteria, said: ["yes"] * len(criteria), batch=1)
    assert (quality.batched, quality.shuffled, bad) == (None, None, set())


def failed(gates) -> set[str]:
    return {name for name, standing in gates.items() if standing is GateState.FAIL}


async def test_a_good_judge_passes_every_gate():
    quality, gates = await measured()
    assert set(gates.values()) == {GateState.PASS}
    assert (quality.flips.value, quality.fleiss, quality.canaries.value) == (0.0, 1.0, 1.0)
    assert quality.agreements[0].kappa.value == 1.0
    assert [each.check for each in quality.agreements] == ["", "it", "so"]
    assert Validation(quality, judge_gates(quality, Gates())).standing is GateState.PASS


async def test_one_who_says_now_this_now_that_does_not_repeat_itself():
    def fickle(question, choices, view, right, asked):
        return right if question in KNOWN or asked % 3 else {"yes": "no", "no": "yes"}[right]

    quality, gates = await measured(fickle)
    assert "repeats itself" in failed(gates)
    assert quality.fleiss < 0.6


async def test_one_who_takes_what_is_named_first_is_found_by_turning_the_choices_round():
    def first(question, choices, view, right, asked):
        return right if question in KNOWN or "hardly" in view["answer"] else choices[0]

    quality, gates = await measured(first)
    assert "order of choices" in failed(gates)
    assert quality.order.p_value < 1e-6
    assert quality.order.worse == 0


async def test_a_p_value_at_the_limit_fails_no_gate_and_one_below_it_does():
    quality, _ = await measured()
    quality = msgspec.structs.replace(quality, order=rank_change([(0, 1)] * 4 + [(0, 0)] * 96))
    p_value = quality.order.p_value
    for limit, standing in ((p_value, GateState.PASS), (p_value * 1.01, GateState.FAIL)):
        gates = {gate.name: gate.standing for gate in judge_gates(quality, Gates(p_value=limit))}
        assert gates["order of choices"] is standing


async def test_one_who_is_moved_by_which_part_comes_first_is_found_too():
    def last_part(question, choices, view, right, asked):
        return right if question in KNOWN or list(view)[-1] == "answer" else "no"

    _, gates = await measured(last_part)
    assert failed(gates) == {"order of data"}


async def test_one_who_likes_long_answers_is_found_by_padding():
    def likes_length(question, choices, view, right, asked):
        return right if question in KNOWN else "yes" if PADDING in view["answer"] else right

    quality, gates = await measured(likes_length)
    assert failed(gates) == {"padding"}
    assert (quality.padding.worse, quality.padding.better > 10) == (0, True)


async def test_one_who_says_yes_to_everything_fails_canaries_and_people():
    quality, gates = await measured(lambda *_: "yes")
    assert failed(gates) == {"canaries", "agrees with people", "agrees with people on `so`", "agrees with people on `it`"}
    assert quality.canaries.value == 0.5
    assert quality.agreements[0].recall.value == 1.0
    assert quality.agreements[0].precision.value == pytest.approx(2 / 3)


async def test_replies_that_are_no_verdict_are_counted_and_not_asked_around():
    def mumbles(question, choices, view, right, asked):
        if int(hashlib.sha256(f"{question}{view['answer']}".encode()).hexdigest(), 16) % 4 == 0:
            raise GradeError("the judge's reply is not one JSON object", kind="unparsable")
        return right

    quality, gates = await measured(mumbles)
    assert "readable replies" in failed(gates)
    assert quality.unreadable.value == pytest.approx(0.25, abs=0.1)
    assert quality.agreements[0].labelled < 60


async def test_an_endpoint_that_breaks_is_an_error_and_not_a_bad_judge():
    def down(*_):
        raise GradeError("nobody answers", kind="connection")

    with pytest.raises(GradeError, match="nobody answers"):
        await measured(down)


async def test_people_who_disagree_lower_the_ceiling_and_few_labels_tell_nothing():
    noisy = await measure_judge([Told()], items(120, noise=0.1), Probing(repeats=2))
    human = noisy.agreements[0].human
    assert human is not None
    assert human.low < human.value < 0.8
    assert noisy.agreements[0].kappa.value > human.value
    few, gates = await measured(asked=items(12))
    assert few.labelled == 12
    assert gates["agrees with people"] is GateState.UNCALIBRATED
    assert Validation(few, judge_gates(few, Gates())).standing is GateState.UNCALIBRATED


async def test_a_judge_as_good_as_the_limit_but_far_below_people_fails():
    def often(question, choices, view, right, asked):
        wrong = int(hashlib.sha256(view["answer"].encode()).hexdigest(), 16) % 8 == 0
        return right if question in KNOWN or not wrong else {"yes": "no", "no": "yes"}[right]

    quality, gates = await measured(often, asked=items(150))
    assert 0.6 < quality.agreements[0].kappa.value < 0.9
    assert gates["agrees with people"] is GateState.FAIL


async def test_labels_correct_the_mean_of_a_lenient_judge():
    def lenient(question, choices, view, right, asked):
        kind = int(hashlib.sha256(view["answer"].encode()).hexdigest(), 16) % 2 == 0
        return right if question in KNOWN or not kind else "yes"

    some = [item if number % 2 else JudgedItem(**{**as_dict(item), "labels": ()}) for number, item in enumerate(items(200))]
    quality = await measure_judge([Told(lenient)], some, Probing(repeats=2))
    assert quality.judged_mean > 0.75
    assert quality.corrected.low < 2 / 3 < quality.corrected.high


def as_dict(item: JudgedItem) -> dict:
    return {name: getattr(item, name) for name in item.__struct_fields__}


async def test_only_so_many_items_are_probed_and_all_labelled_ones_asked():
    judge = Told()
    quality = await measure_judge([judge], items(80), Probing(repeats=2, most=10))
    assert quality.calls == judge.asked == 10 * (2 + 1 + 1 + 1 + 2) + 70
    assert quality.agreements[0].labelled == 80


async def test_there_must_be_something_to_ask():
    with pytest.raises(ConfigError, match="no items to judge"):
        await measure_judge([Told()], [])
    with pytest.raises(ConfigError, match="repeats is 1"):
        Probing(repeats=1)


# -- items -------------------------------------------------------------------------------------------------------------

CHECK = {"kind": "judge", "id": "kind", "prompt": "The answer is kind.", "view": ["answer"]}
EXAMPLES = [{"view": "Gladly!", "verdict": "yes"}, {"view": "Go away.", "verdict": "no"}]


def test_an_example_is_asked_about_without_itself(tmp_path):
    rubric = tmp_path / "rubric.json"
    rubric.write_text(json.dumps({"checks": [{**CHECK, "examples": EXAMPLES}]}))
    found = list(example_items(checks_of(rubric)))
    assert [(item.view["answer"], item.labels) for item in found] == [("Gladly!", ("yes",)), ("Go away.", ("no",))]
    assert "Gladly!" not in found[0].question
    assert "Go away." in found[0].question


def test_labels_name_a_check_or_bring_their_question(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text(
        '{"check": "kind", "view": "Gladly!", "labels": ["yes", "no"]}\n\n'
        '{"question": "Is it long?", "choices": ["no", "partly", "yes"], "view": {"answer": "x", "task": "y"}}\n'
    )
    one, other = labelled_items(path, {"kind": JudgeCheck(id="kind", prompt="The answer is kind.")})
    assert (one.question, one.labels) == ("The answer is kind.", ("yes", "no"))
    assert (other.choices[1], list(other.view)) == ("partly", ["answer", "task"])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"check": "rude", "view": "x"}', "no judge check `rude`; there are: kind"),
        ('{"check": "kind", "view": "x", "labels": ["maybe"]}', "must be among the choices"),
        ('{"question": "q", "choices": ["yes"], "view": "x"}', "two or more"),
        ('{"check": "kind"}', "view"),
        ('{"check": "kind", "view": "x", "label": "yes"}', "unknown field"),
        ("[1", "1: "),
        ("", "has no lines"),
    ],
)
def test_a_line_that_is_wrong_is_named(tmp_path, line, complaint):
    path = tmp_path / "labels.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigError, match=complaint):
        labelled_items(path, {"kind": JudgeCheck(id="kind", prompt="The answer is kind.")})


async def test_a_run_gives_what_its_rollouts_left(tmp_path):
    folder = tmp_path / "polite"
    (folder / "rubrics").mkdir(parents=True)
    (folder / "tasks").mkdir()
    (folder / "environment.toml").write_text('name = "polite"\n')
    (folder / "tasks" / "all.jsonl").write_text("".join(f'{{"id": "t-{n}", "prompt": "Greet {n}."}}\n' for n in range(6)))
    python = {"kind": "python", "id": "there", "ref": "sandlot:answer_matches", "args": {"pattern": "Greet"}}
    (folder / "rubrics" / "plain.json").write_text(json.dumps({"checks": [python]}))
    (folder / "rubrics" / "default.json").write_text(json.dumps({"checks": [python, CHECK]}))
    config = RunConfig(env=str(folder), model=ModelConfig(spec="scripted:echo"), rubric="plain")
    run = await run_config(config, place=tmp_path / "run")
    assert [item async for item in run_items(run.path, 10)] == []
    (folder / "rubrics" / "plain.json").write_text(json.dumps({"checks": [python, CHECK]}))
    found = [item async for item in run_items(run.path, 4)]
    assert [(item.check, item.view["answer"][:5]) for item in found] == [("kind", "Greet")] * 4
