"""Finding and checking environments: errors name file, line, value and fix."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sandlot
from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.task import Split, Task, split_of
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.load import find_environments, ready_environments
from sandlot.env.module import forget_modules
from sandlot.env.scaffold import Form, scaffold
from sandlot.env.taskset import tasks_from, tasks_of


@pytest.fixture
def folder(tmp_path):
    """A folder environment that works, for tests to break."""
    return scaffold("notes", Form.FOLDER, tmp_path)[0].parent


def refused(path) -> str:
    forget_modules(path if path.is_dir() else path.parent)
    with pytest.raises(ConfigError) as caught:
        tasks_of(sandlot.load(path))
    return str(caught.value)


def test_the_three_forms_load_to_the_same_thing(tmp_path):
    for form in Form:
        scaffold(f"made-{form}", form, tmp_path)
        env = sandlot.load(tmp_path / f"made-{form}")
        assert env.name == f"made-{form}"
        assert tasks_of(env)


def test_a_path_may_leave_off_its_ending(tmp_path):
    (tmp_path / "add.py").write_text(
        "from sandlot import *\n@environment('add', tasks=1)\ndef f(rng):\n    yield Ask('')\n    yield Score(1)"
    )
    assert sandlot.load(tmp_path / "add").name == "add"


def test_an_unknown_name_lists_what_could_have_been_meant(folder):
    with pytest.raises(ConfigError, match=r"did you mean `.*notes`"):
        sandlot.load(folder.parent / "note")


def test_a_syntax_error_names_file_and_line(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("from sandlot import Environment\nenv = Environment('x'\n")
    assert f"{path}:2" in refused(path)


def test_an_error_at_import_names_the_authors_line(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def helper():\n    return {}['missing']\n\nhelper()\n")
    assert f"{path}:2: KeyError: 'missing'" in refused(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from sandlot import Environment\n", "a file holds one `Environment`; this one has none"),
        ("from sandlot import *\na = Environment('a')\nb = Environment('b')\n", "this one has `a`, `b`; keep one per file"),
        ("from sandlot import *\nenv = Environment('a')\n", "has no tasks"),
        ("from sandlot import *\nenv = Environment('a')\nenv.tasks(lambda rng: [Task('x')])\n", "has no checks"),
    ],
)
def test_an_incomplete_file_says_what_is_missing(tmp_path, text, complaint):
    path = tmp_path / "some.py"
    path.write_text(text)
    assert complaint in refused(path)


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        ("[Task('x'), Task('x')]", "two tasks have the id `x`"),
        ("['x']", "yielded str 'x'; yield `Task"),
        ("[]", "yields no tasks"),
        ("[Task('a b')]", "task id 'a b'"),
        ("[Task('../etc')]", "task id"),
    ],
)
def test_wrong_tasks_are_refused_by_value(tmp_path, tasks, complaint):
    path = tmp_path / "some.py"
    path.write_text(
        f"from sandlot import *\nenv = Environment('a')\nenv.tasks(lambda rng: {tasks})\nenv.check()(lambda evidence: True)\n"
    )
    import re

    assert re.search(complaint, refused(path))


def test_a_task_generator_that_raises_is_the_authors_error(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        "from sandlot import *\nenv = Environment('a')\nenv.tasks(lambda rng: 1 / 0)\nenv.check()(lambda evidence: True)\n"
    )
    with pytest.raises(AuthorError, match="ZeroDivisionError"):
        tasks_of(sandlot.load(path))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("turns = 10", "turn = 10", "unknown field `turn`"),
        ("turns = 10", "turns = -1", "limit `turns` is -1"),
        ("turns = 10", 'turns = "ten"', "Expected `int`"),
        ('name = "notes"', "name = ", "environment.toml"),
        ("tools = [", 'tools = ["lst", ', "no function `lst`; functions there: list_notes, read_note"),
        ("[limits]", "[limit]", "unknown field `limit`"),
    ],
)
def test_a_wrong_manifest_names_the_field(folder, old, new, complaint):
    path = folder / "environment.toml"
    path.write_text(path.read_text().replace(old, new))
    assert complaint in refused(folder)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{nonsense", ":5: "),
        ('{"prompt": "no id"}', ":5: Object missing required field `id`"),
        ('{"id": "x", "prompt": "p", "answer": 3}', "unknown field `answer`"),
        ('{"id": "x", "prompt": 3}', "Expected `str`, got `int`"),
        ('{"id": "x", "prompt": "p", "split": "test"}', "Invalid enum value 'test'"),
        ('["x"]', "Expected `object`"),
        ("\xff", ":5: "),
    ],
)
def test_a_wrong_line_of_tasks_is_named_by_its_number(folder, line, complaint):
    path = folder / "tasks" / "tasks.jsonl"
    with path.open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    message = refused(folder)
    assert "tasks.jsonl:5" in message
    assert complaint in message


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("checks:names_only_them", "checks:nothing", "no function `nothing`"),
        ("checks:names_only_them", "../evil:f", "evil"),
        ("sandlot:tool_called", "sandlot:tool_caled", "tool_caled"),
        ('"requires": ["right_name"]', '"requires": ["wrong_name"]', "wrong_name"),
        ('"points": 4', '"points": "four"', "points"),
        ('"kind": "python"', '"kind": "perl"', "perl"),
    ],
)
def test_a_wrong_rubric_is_refused_at_load(folder, old, new, complaint):
    path = folder / "rubrics" / "default.json"
    path.write_text(path.read_text().replace(old, new))
    assert complaint in refused(folder)


def test_tasks_in_two_places_are_refused(folder):
    (folder / "tasks.py").write_text("def tasks(rng):\n    return []\n")
    assert "keep one" in refused(folder)


def test_a_constraint_about_no_tool_is_refused(folder):
    path = folder / "environment.toml"
    path.write_text(path.read_text() + '\n[[constraints]]\nid = "a"\ntool = "fly"\n')
    assert "names the tool `fly`, which does not exist" in refused(folder)


def test_tasks_are_read_from_parquet_in_one_line(tmp_path):
    path = tmp_path / "tasks.parquet"
    rows = [
        {"id": "a", "prompt": "p", "data": {"n": 1}, "split": None},
        {"id": "b", "prompt": "q", "data": {"n": 2}, "split": "heldout"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    assert list(tasks_from(path)) == [Task("a", "p", {"n": 1}), Task("b", "q", {"n": 2}, split=Split.HELDOUT)]


def test_a_file_that_is_not_parquet_is_refused(tmp_path):
    path = tmp_path / "tasks.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(ConfigError, match="not readable Parquet"):
        list(tasks_from(path))


def test_about_a_fifth_of_tasks_is_held_out_and_stays_so():
    tasks = [Task(f"t-{n}") for n in range(2000)]
    heldout = [task.id for task in tasks if split_of(task) is Split.HELDOUT]
    assert 300 < len(heldout) < 500
    assert heldout == [task.id for task in tasks if split_of(task) is Split.HELDOUT]
    assert split_of(Task("t-1", split=Split.HELDOUT)) is Split.HELDOUT


def test_the_fingerprint_is_of_what_the_author_wrote(folder):
    env = sandlot.load(folder)
    before = environment_fingerprint(env)
    (folder / "README.md").write_text("words")
    (folder / "tests" / "test_more.py").write_text("")
    (folder / "__pycache__").mkdir(exist_ok=True)
    assert environment_fingerprint(env) == before
    (folder / "tools.py").write_text((folder / "tools.py").read_text() + "\n# changed\n")
    assert environment_fingerprint(env) != before


def test_environments_are_listed(folder):
    assert [(found.name, found.form) for found in find_environments(folder.parent, installed=False)] == [("notes", "folder")]


def test_ready_environments_are_listed_once(folder):
    elsewhere = [found for found in find_environments(folder.parent) if found.form == "ready"]
    assert {found.name for found in elsewhere} == set(ready_environments())
    assert {found.place for found in elsewhere} == {
        str(sandlot.load(found.name).source) for found in elsewhere
    }  # as runs name it
    beside = next(iter(ready_environments().values())).parent
    assert "ready" not in {found.form for found in find_environments(beside)}


@pytest.mark.parametrize(
    ("form", "stated", "heldout"),
    [(Form.FILE, "Three of the 32 tasks are held out", 3), (Form.FOLDER, "Two of the four tasks are held out", 2)],
)
def test_the_page_of_a_scaffold_counts_its_held_out_tasks(tmp_path, form, stated, heldout):
    made = scaffold("made", form, tmp_path)[0].parent
    assert stated in (made / "README.md").read_text()
    assert sum(split_of(task) is Split.HELDOUT for task in tasks_of(sandlot.load(made))) == heldout


def test_scaffolding_overwrites_nothing(folder):
    with pytest.raises(ConfigError, match="already exists"):
        scaffold("notes", Form.FILE, folder.parent)
    with pytest.raises(ConfigError, match="lower-case"):
        scaffold("../up", Form.FILE, folder.parent)


def test_two_environments_may_have_files_of_the_same_name(tmp_path):
    for name in ("one", "two"):
        scaffold(name, Form.FOLDER, tmp_path)
        (tmp_path / name / "checks.py").write_text(
            f"def names_only_them(evidence, task, *, most_words):\n    return True, {name!r}\n"
        )
    envs = [sandlot.load(tmp_path / name) for name in ("one", "two")]
    assert [env.marked.functions["checks:names_only_them"](None, None, most_words=1)[1] for env in envs] == ["one", "two"]


def names_of(env):
    return [tool.spec.name for tool in env.tools]


def look(world: sandlot.World) -> str:
    """Look."""
    return "nothing"


@pytest.mark.parametrize(
    ("tools", "there"), [(None, ["bash"]), ([], []), ([look], ["look"]), (["bash"], ["bash"]), ([look, "bash"], ["bash", "look"])]
)
def test_a_list_of_tools_is_all_there_is(tools, there):
    env = sandlot.Environment("shop", image="host", tools=tools)
    assert names_of(env) == there
    env.tool(name="more")(look)
    assert names_of(env) == [*there, "more"]


@pytest.mark.parametrize("tools", ["bash", ["shell"], look])
def test_a_list_of_tools_that_is_none_is_refused(tools):
    with pytest.raises(ConfigError, match="environment `shop`: tools"):
        sandlot.Environment("shop", image="host", tools=tools)


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("", ["bash", "list_notes", "read_note"]),
        ("tools = []", []),
        ('tools = ["read_note"]', ["read_note"]),
        ('tools = ["bash"]', ["bash"]),
        ('tools = ["read_note", "bash"]', ["bash", "read_note"]),
    ],
)
def test_a_manifest_lists_all_the_tools_there_are(folder, line, there):
    path = folder / "environment.toml"
    lines = [each for each in path.read_text().splitlines() if not each.startswith("tools = ")]
    path.write_text("\n".join(['image = "host"', line, *lines]))
    forget_modules(folder)
    assert names_of(sandlot.load(folder)) == there


def test_a_ready_environment_is_found_by_its_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {"arithmetic", "helpdesk", "ledger"} <= ready_environments().keys()
    assert not {"broken", "tests"} & ready_environments().keys()
    assert sandlot.load("arithmetic").name == "arithmetic"
    with pytest.raises(ConfigError, match="did you mean `arithmetic`"):
        sandlot.load("arithmetik")


def test_a_path_comes_before_a_ready_environment(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    folder.rename("ledger")
    assert sandlot.load("ledger").name == "notes"


def test_a_folder_may_declare_what_text_models_get_of_its_images(folder):
    path = folder / "environment.toml"
    path.write_text(path.read_text().replace('name = "notes"', 'name = "notes"\nimages = "describe"'))
    assert sandlot.load(folder).images == "describe"
    path.write_text(path.read_text().replace('"describe"', '"show"'))
    assert "images" in refused(folder)
