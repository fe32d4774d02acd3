import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.rubric import CheckGroup, JudgeCheck, JudgeExample, PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.grade.lint import LintSeverity, lint, lint_file, require_gradable

EXAMPLES = (JudgeExample(view="a", verdict="no"), JudgeExample(view="b", verdict="yes"))


def python(name, **rest):
    return PythonCheck(**{"id": name, "ref": f"checks:{name}"} | rest)


def judged(name, prompt, **rest):
    return JudgeCheck(**{"id": name, "prompt": prompt, "examples": EXAMPLES} | rest)


def codes(*checks, **rest):
    options = {name: rest.pop(name) for name in ("functions", "tasks") if name in rest}
    return {(finding.code, finding.check) for finding in lint(Rubric(checks=checks, **rest), **options)}


def test_a_clean_rubric_has_no_findings():
    assert lint(Rubric(checks=(python("a"), python("b")))) == []


def test_errors_come_first_with_a_fix():
    findings = lint(Rubric(checks=(judged("j", "x and y"), python("a", requires=("z",)))), functions={}.__getitem__)
    assert findings[0].severity is LintSeverity.ERROR
    assert {finding.code for finding in findings} == {"unknown-requires", "unknown-ref"}
    assert all(finding.fix and finding.message for finding in findings)


def test_a_check_worth_a_fifth_of_many_is_heavy():
    assert codes(*(python(f"c{n}") for n in range(12)), python("big", points=5)) == {("heavy", "big")}


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("The total is right and the tax is right.", "compound"),
        ("It names the customer or the ticket.", "compound"),
        ("The answer does not invent a source.", "negation"),
        ("It isn't rude.", "negation"),
        ("The sum is given without rounding.", "negation"),
    ],
)
def test_prompts_that_can_be_gamed(prompt, code):
    assert (code, "j") in codes(judged("j", prompt))


@pytest.mark.parametrize(
    "prompt", ["The total is between 3 and 5.", 'It is addressed to "Smith and Sons".', "The tone is polite."]
)
def test_prompts_that_are_fine(prompt):
    assert codes(judged("j", prompt)) == {("judge-share", None)}


def test_a_judge_check_wants_an_example_of_both_verdicts():
    assert ("no-examples", "j") in codes(judged("j", "It is so.", examples=EXAMPLES[:1]))


def test_two_checks_that_ask_the_same_are_found():
    one, two = judged("one", "The report names the largest customer."), judged("two", "The report names the largest customer!")
    assert ("near-duplicate", "two") in codes(one, two)
    assert ("near-duplicate", "b") in codes(
        python("a", ref="checks:x", args={"n": 1}), python("b", ref="checks:x", args={"n": 1})
    )
    assert ("near-duplicate", "b") not in codes(
        python("a", ref="checks:x", args={"n": 1}), python("b", ref="checks:x", args={"n": 2})
    )


def test_points_for_mere_presence_are_added_up():
    checks = (
        python("e", ref="sandlot:file_exists", args={"path": "/a"}, points=4),
        judged("m", "Mentions the total.", points=3),
        python("right", points=3),
    )
    assert ("presence", None) in codes(*checks)
    assert ("presence", None) not in codes(*checks, python("more", points=3))


def test_odd_weights_gates_and_caps_are_found():
    found = codes(
        python("a"), python("g", gate=True, points=-1), python("w", points=0), groups=(CheckGroup(id="x", cap=9, checks=("a",)),)
    )
    assert {("negative-gate", "g"), ("worthless", "w"), ("idle-cap", None)} <= found


def test_references_and_arguments_are_checked_against_the_functions():
    functions = {"checks:a": lambda evidence, task, cell: True}.__getitem__
    assert codes(python("a", args={"cell": "B1"}), functions=functions) == set()
    assert codes(python("a", args={"row": "B1"}), functions=functions) == {("wrong-args", "a")}
    assert codes(python("b"), functions=functions) == {("unknown-ref", "b")}


def test_a_resolver_may_refuse_with_a_config_error():
    def refuse(ref):
        raise ConfigError(f"no `{ref}`")

    assert codes(python("a"), functions=refuse) == {("unknown-ref", "a")}


def test_built_in_checks_are_always_checked():
    assert codes(python("a", ref="sandlot:nothing")) == {("unknown-ref", "a")}
    assert codes(python("a", ref="sandlot:answer_equals")) == {("wrong-args", "a")}
    assert codes(python("a", ref="sandlot:answer_matches", args={"pattern": "(a+)+"})) == {("bad-pattern", "a")}


def test_variables_are_looked_up_in_the_tasks():
    tasks = [Task("one", key={"total": 1}), Task("two", key={})]
    found = lint(Rubric(checks=(python("a", args={"x": "$key.total"}),)), tasks=tasks)
    assert [finding.code for finding in found] == ["unknown-path"]
    assert "task `two` has no `total`" in found[0].message
    assert codes(python("a", args={"x": ["$keys.total"]})) == {("odd-variable", "a")}


def test_a_rubric_with_errors_is_refused_before_the_first_rollout_and_warnings_are_not():
    require_gradable(Rubric(checks=(judged("j", "x and y"),)), "default", functions={}.__getitem__)
    with pytest.raises(ConfigError, match=r"(?s)default: .*`checks:a` is not found.*default: .*task `t` has no `x`"):
        require_gradable(
            Rubric(checks=(python("a", args={"n": "$key.x"}),)), "default", functions={}.__getitem__, tasks=[Task("t")]
        )


def test_a_file_that_is_no_rubric_is_one_finding_with_its_place(tmp_path):
    file = tmp_path / "r.json"
    file.write_text('{\n"checks": [\n{"kind": "python", "id": 3}]}')
    found = lint_file(file)
    assert [(finding.code, finding.severity) for finding in found] == [("schema", "error")]
    assert f"{file}:3: Expected `str`, got `int`" in found[0].message
    file.write_text('{"checks": [{"kind": "python", "id": "a", "ref": "x:y", "requires": ["b"]}]}')
    assert [finding.code for finding in lint_file(file)] == ["unknown-requires"]


def test_an_async_check_cannot_be_isolated():
    async def later():
        return True

    assert codes(python("a", isolate=True), functions={"checks:a": later}.__getitem__) == {("async-isolate", "a")}


@pytest.mark.parametrize("view", ["transcript", "last_image"])
def test_a_judge_of_the_conversation_is_warned_of_agents_that_report_it_themselves(view):
    (found,) = [
        each
        for each in lint(Rubric(checks=(judged("j", "It is polite.", view=("answer", view)),)))
        if each.code == "reported-view"
    ]
    assert found.severity is LintSeverity.WARNING
    assert view in found.message
    assert "--agent-command" in found.message
    assert "reported-view" not in {each.code for each in lint(Rubric(checks=(judged("j", "It is polite.", view=("/out",)),)))}
