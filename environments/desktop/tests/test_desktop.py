"""The jobs at the desktop. Most tests need no desktop: jobs are made by functions, and grading reads files."""

import gzip
import io
import sys
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from sandlot import Agent, Split, Task, load, run, tasks_of
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = {task.id: task for task in tasks_of(ENV)}
MODULE: Any = sys.modules[ENV.marked.solution.__module__]
WANTED: Any = sys.modules[MODULE.shares.__module__]
FORMATS: Any = sys.modules[WANTED.parse_xml.__module__]
SAMPLE = ("save-copy-3", "swap-names-2", "add-totals-1", "extract-files-2", "tick-list-1", "window-settings-3")


class Disk:
    """Files at the end of a rollout, as checks see them."""

    def __init__(self, task: str) -> None:
        found = TASKS[task]
        job = MODULE.FAMILIES[found.data["family"]].make(Random(int(found.data["seed"])), found.data["level"])
        self.task = found
        self.start = {path: text.encode() if isinstance(text, str) else text for path, text in job.files.items()}
        self.files = dict(self.start)

    def exists(self, path: str) -> bool:
        return path in self.files

    def kind(self, path: str) -> str | None:
        return "file" if path in self.files else None

    def read(self, path: str) -> bytes:
        return self.files[path]

    def diff(self) -> dict[str, tuple[bytes | None, bytes | None]]:
        paths = self.start.keys() | self.files.keys()
        return {
            path: (self.start.get(path), self.files.get(path)) for path in paths if self.start.get(path) != self.files.get(path)
        }

    def share(self) -> float:
        return MODULE.the_job_is_done(self, self.task)[0]

    def others(self) -> list[str]:
        return WANTED.other_changes(self, self.task.key["wants"])


def test_there_are_45_jobs_in_15_families_with_a_heldout_one_in_each():
    families = {task.data["family"] for task in TASKS.values()}
    assert (len(TASKS), len(families)) == (45, 15)
    assert {task.data["family"] for task in TASKS.values() if task.split is Split.HELDOUT} == families
    assert len({task.prompt for task in TASKS.values()}) == 45


def test_tasks_show_the_world_only_what_makes_it():
    assert {frozenset(task.data) for task in TASKS.values()} == {frozenset({"family", "level", "seed"})}


@pytest.mark.parametrize("task", sorted(TASKS))
def test_nothing_is_done_at_the_start(task: str):
    disk = Disk(task)
    assert disk.share() == 0
    assert disk.others() == []


def test_every_family_can_be_made_at_every_level_from_other_seeds():
    for name, family in MODULE.FAMILIES.items():
        for level in range(1, MODULE.LEVELS + 1):
            job = family.make(Random(f"{name}{level}"), level)
            assert job.wants
            assert job.files


def parts_of(disk: Disk, kind: str) -> list[dict[str, Any]]:
    """The parts of this kind of a job whose wants have parts."""
    return [part for want in disk.task.key["wants"] for part in want.get("wants", []) if part["kind"] == kind]


@pytest.mark.parametrize("task", ["move-invoices-1", "rename-scans-2"])
def test_a_file_that_is_deleted_and_nowhere_else_earns_nothing(task: str):
    disk = Disk(task)
    for want in parts_of(disk, "gone"):
        del disk.files[want["path"]]
    assert disk.share() == 0


@pytest.mark.parametrize("task", ["move-invoices-1", "rename-scans-2"])
def test_a_copy_is_no_move(task: str):
    disk = Disk(task)
    for want in parts_of(disk, "text"):
        disk.files[want["path"]] = want["text"].encode()
    assert disk.share() == 0
    assert disk.others() == []
    first, *others = parts_of(disk, "gone")
    del disk.files[first["path"]]
    assert disk.share() == 1 / (len(others) + 1)
    for want in others:
        del disk.files[want["path"]]
    assert disk.share() == 1
    assert disk.others() == []


@pytest.mark.parametrize("task", ["swap-names-1", "swap-names-2", "swap-names-3"])
def test_one_file_over_the_other_is_no_swap(task: str):
    disk = Disk(task)
    first, second = parts_of(disk, "text")
    backup = f"{first['path']}.bak"
    disk.files[first["path"]] = first["text"].encode()
    disk.files.pop(backup, None)
    assert disk.share() == 0
    disk.files[second["path"]] = second["text"].encode()
    assert disk.share() == 1
    assert disk.others() == []
    if backup in disk.start:
        disk.files[backup] = disk.start[backup]
        assert disk.share() == 0.5


def test_the_right_text_in_a_folder_of_the_same_name_counts_as_a_side_effect():
    disk = Disk("edit-values-1")
    want = disk.task.key["wants"][0]
    disk.files[want["path"].replace("/Documents/", "/Documents/old/")] = want["text"].encode()
    assert disk.share() == 0
    assert len(disk.others()) == 1


def test_settings_and_caches_of_applications_are_not_her_files():
    disk = Disk("edit-values-1")
    disk.files["/home/ada/.config/xarchiver/xarchiverrc"] = b"x"
    disk.files["/home/ada/.local/share/Mousepad/session"] = b"x"
    assert disk.others() == []


def workbook_with(task: str, **cells: str) -> Disk:
    """The workbook of a task with its wanted cells entered, and then these."""
    disk = Disk(task)
    want = disk.task.key["wants"][0]
    values = {
        **want["keep"],
        **{place: text[0] if isinstance(text, list) else text for place, text in want["cells"].items()},
        **cells,
    }
    body = "".join(
        f'<gnm:Cell Row="{int(place[1:]) - 1}" Col="{ord(place[0]) - 65}">{text}</gnm:Cell>' for place, text in values.items()
    )
    sheet = f"<gnm:Sheet><gnm:Name>{want['sheet']}</gnm:Name><gnm:Cells>{body}</gnm:Cells></gnm:Sheet>"
    xml = f'<gnm:Workbook xmlns:gnm="x">{sheet}</gnm:Workbook>'
    disk.files[want["path"]] = gzip.compress(xml.encode())
    return disk


def test_a_total_is_a_formula_and_not_a_number():
    assert workbook_with("add-totals-1").share() == 1
    last = max(TASKS["add-totals-1"].key["wants"][0]["cells"])
    assert workbook_with("add-totals-1", **{last: "12345"}).share() < 1
    assert workbook_with("add-totals-1", A1="another heading").share() == 0


def test_the_heading_of_a_total_earns_nothing_alone():
    cells = TASKS["add-totals-1"].key["wants"][0]["cells"]
    label, *sums = cells
    assert workbook_with("add-totals-1", **dict.fromkeys(sums, "1")).share() == 0
    assert workbook_with("add-totals-1", **dict.fromkeys(sums[1:], "1")).share() == 2 / len(cells)
    assert workbook_with("add-totals-1", **{label: "x"}).share() == len(sums) / len(cells)


def cells_of(body: str) -> dict[str, str]:
    sheet = f"<gnm:Sheet><gnm:Name>S</gnm:Name><gnm:Cells>{body}</gnm:Cells></gnm:Sheet>"
    return FORMATS.gnumeric_cells(f'<gnm:Workbook xmlns:gnm="x">{sheet}</gnm:Workbook>'.encode())["S"]


def test_a_formula_that_was_filled_to_the_right_is_read_as_each_cell_has_it():
    body = (
        '<gnm:Cell Row="4" Col="1" ExprID="1">=SUM(B2:B4)+$A$1+LOG10(B$2)</gnm:Cell><gnm:Cell Row="4" Col="2" ExprID="1"/>'
        '<gnm:Cell Row="5" Col="3" ExprID="1"/><gnm:Cell Row="0" Col="0" ExprID="1"/><gnm:Cell Row="1" Col="0" ExprID="2"/>'
        '<gnm:Cell Row="2" Col="0" ExprID="1">=B7</gnm:Cell>'
    )
    assert cells_of(body) == {
        "B5": "=SUM(B2:B4)+$A$1+LOG10(B$2)",
        "C5": "=SUM(C2:C4)+$A$1+LOG10(C$2)",
        "D6": "=SUM(D3:D5)+$A$1+LOG10(D$2)",
        "A1": "=SUM(#REF!:#REF!)+$A$1+LOG10(A$2)",
        "A2": "",
        "A3": "=B7",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8bxx",
        b"<a>",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        *('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode(encoding) for encoding in ("utf-16-le", "utf-16-be", "utf-16")),
        b"<Sheet><Cell Row='x' Col='1'>1</Cell></Sheet>",
        b"<Sheet><Cell Row='1' Col='99999999'>1</Cell></Sheet>",
        gzip.compress(b"<a>" + b" " * 5_000_000 + b"</a>"),
    ],
)
def test_a_damaged_or_hostile_workbook_is_not_met_and_no_error(data: bytes):
    disk = Disk("correct-cells-1")
    disk.files[disk.task.key["wants"][0]["path"]] = data
    assert disk.share() == 0


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-16"])
def test_a_document_type_is_refused_in_every_encoding(encoding: str):
    text = f'<?xml version="1.0" encoding="{encoding[:6].rstrip("-")}"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    with pytest.raises(FORMATS.Unreadable):
        FORMATS.parse_xml(text.encode(encoding))


def test_archives_are_read_within_limits():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "A")
    assert FORMATS.zip_members(buffer.getvalue()) == {"a.txt": b"A"}
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", b"\0" * 8_000_000)
    for data in (buffer.getvalue(), b"PK", b""):
        with pytest.raises(FORMATS.Unreadable):
            FORMATS.zip_members(data)


def test_a_page_is_compared_without_its_header():
    disk = Disk("write-page-1")
    want = disk.task.key["wants"][0]
    page = "Content-Type: text/x-zim-wiki\nCreation-Date: 2026-01-01T10:00:00+00:00\n\n====== A ======\nCreated Monday\n\n"
    disk.files[want["path"]] = (page + "\n".join(want["lines"]) + "\n").encode()
    assert disk.share() == 1
    disk.files[want["path"]] = (page + "\n".join(reversed(want["lines"])) + "\n").encode()
    assert disk.share() == 0


def test_settings_that_were_not_asked_for_cost_everything():
    disk = Disk("editor-settings-1")
    (want,) = disk.task.key["wants"]
    path, section, keys, others = (want[name] for name in ("path", "section", "on", "off"))

    def share(*lines: str) -> float:
        disk.files[path] = "\n".join([f"[{section}]", *lines]).encode()
        return disk.share()

    asked = [f"{key}=true" for key in keys]
    assert share(*asked) == 1
    assert share(asked[0]) == 1 / len(asked)
    assert share(*asked, f"{others[0]}=false") == 1  # turned on and off again
    assert share(*asked, f"{others[0]}=true") == 0
    assert share(*asked, *(f"{other}=true" for other in others)) == 0
    assert share("width=3") == 0


# -- on a real desktop -------------------------------------------------------------------------------------------------


def test_tasks_are_the_same_in_every_process(same_tasks_elsewhere: Any):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


@pytest.mark.system
@pytest.mark.timeout(900)
def test_two_cold_starts_have_the_same_bytes():
    async def state(task: Task) -> str:
        async with open_native() as backend, open_session(ENV, task, backend=backend) as session:
            await session.reset()
            command = "find /home /tmp /etc /var /root -xdev -type f -exec sha256sum {} + -o -printf '%y %m %p %l\\n' | sort"
            return (await session.world.exec(command, check=True)).stdout

    for name in ("edit-values-1", "tick-list-2", "correct-cells-3"):
        assert anyio.run(state, TASKS[name]) == anyio.run(state, TASKS[name])


@pytest.mark.system
@pytest.mark.timeout(900)
def test_the_golden_solution_does_a_sample_of_jobs(play: Any):
    scores = play(load(HERE), tasks=SAMPLE, at_once=2)
    assert {str(score) for score in scores.values()} == {"10/10"}


async def edits_and_does_not_save(agent: Agent, task: Task) -> None:
    """Everything as in the golden solution, but for the last key."""
    plan = task.key["plan"]
    await agent.call("desktop_open", application="editor", path=plan["path"])
    for number, text in plan["lines"]:
        await agent.call("desktop_press", keys="ctrl+Home")
        await agent.call("desktop_press", keys="Down", count=number)
        await agent.call("desktop_press", keys="End")
        await agent.call("desktop_press", keys="shift+Home")
        await agent.call("desktop_type", text=text)
    await agent.say("Saved.")


@pytest.mark.system
@pytest.mark.timeout(900)
def test_what_is_not_saved_earns_nothing(play: Any):
    assert play(load(HERE), edits_and_does_not_save, ("edit-values-1",))["edit-values-1"].value == 0
    cheat = ENV.marked.adversaries["edits_without_saving"]
    assert {score.value for score in play(load(HERE), cheat, ("tick-list-1", "save-copy-1"), at_once=2).values()} == {0.0}


@pytest.mark.system
@pytest.mark.timeout(300)
def test_it_makes_no_difference_whether_the_editor_has_stored_its_window_yet(tmp_path, monkeypatch):
    """It does so some time after it opened: on a busy machine the rollout may be over by then."""
    left = []
    for seconds in (0, 4):

        async def open_editor(agent: Agent, task: Task, seconds: int = seconds) -> None:
            hands = MODULE.Hands(agent)
            await hands.open("editor", title="Mousepad")
            await hands.do("wait", seconds=seconds)
            await agent.say("Open.")

        monkeypatch.setattr(ENV.marked, "solution", open_editor)
        (trace,) = run(ENV, "scripted:golden", tasks=("edit-values-1",), runs=tmp_path / str(seconds))
        left.append({path: file for path, file in trace.evidence.files.items() if path.endswith("/keyfile")})
    assert left[0] == left[1] != {}
