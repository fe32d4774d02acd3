# ruff: noqa: E501 - hostile data, one piece per line
"""What a hostile agent may leave: every check decides `not met` (or refuses), and none hangs, fills the memory or raises."""

import hashlib
import struct
import subprocess
import tracemalloc
import zlib
from collections import Counter
from random import Random

import pytest

from builders.checked_evidence import COMMITS, MAIL, ORDERS, chunk, database, png, repository, sha256
from builders.evidence import make_evidence
from sandlot.audit.probes.grader.fuzz import ODD_ANSWERS, random_answer
from sandlot.checks import LIBRARY, image_hash, repositories, same_math, same_quantity
from sandlot.core.errors import NotInEvidence

TEXT_CHECKS = {
    "number_equals": {"value": 1204},
    "quantity_equals": {"value": "3.2 km"},
    "quantity_between": {"low": "1 m", "high": "2 m"},
    "date_equals": {"value": "2026-03-04"},
    "moment_equals": {"value": "2026-03-04T15:30:00+01:00"},
    "duration_equals": {"value": "90 min"},
    "math_equals": {"value": "x^2 + 1"},
    "choice_equals": {"choice": "F", "options": "ABCDEF"},
    "text_states": {"facts": ["42.50", "Ann"], "absent": ["52.50"]},
    "text_like": {"text": "The meeting is moved to 14:30 on Friday."},
}


def said(name, evidence, **arguments):
    """The verdict of a check; what is refused as not in evidence is not met."""
    try:
        met, reason = LIBRARY[name](evidence, **arguments)
    except NotInEvidence as error:
        met, reason = False, str(error)
    assert reason
    return met


@pytest.mark.parametrize("name", TEXT_CHECKS)
def test_odd_answers_are_not_met_and_do_not_raise(name):
    rng = Random(0)
    answers = [
        *ODD_ANSWERS,
        *(random_answer(rng, ["3.2 km", "4 March 2026", "\\frac{1}{2}"]) for _ in range(300)),
        "9^" * 500 + "9",
    ]
    answers += [
        "(" * 3000,
        "\\frac{" * 500,
        "1" * 100_000,
        "a " * 100_000,
        "\\sqrt{" * 30 + "2" + "}" * 30,
        "-" * 900 + "1",
        "|" * 600,
    ]
    assert [answer[:60] for answer in answers if said(name, make_evidence(answer=answer), **TEXT_CHECKS[name])] == []


@pytest.mark.parametrize("name", TEXT_CHECKS)
def test_the_same_words_in_a_file_get_the_same_verdict(name):
    for text in ("3.2 km", "2026-03-04", "x^2+1", "F", "90 min"):
        by_answer = said(name, make_evidence(answer=text), **TEXT_CHECKS[name])
        assert (
            said(name, make_evidence({"/a": text.encode()}), path="/a", **TEXT_CHECKS[name]) is by_answer or name == "text_states"
        )


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{5}\n\\boxed{6}",
        "Answer: 5\nAnswer: 6",
        "5\n6",
        "Answer: 5 or 6",
        "5, 6, 7",
        "5 = 6",
        "[5]",
        "{5, 6}",
        "not 5",
        "5!",
    ],
)
def test_two_final_answers_are_refused(text):
    assert said("math_equals", make_evidence(answer=text), value="5") is False


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("Bob will pay the rent of the old house near the river to Ann", False),
        ("Bob will pay the rent of the old hose near the river to Ann", False),
        ("Ann will pay the rent of the old hose near the river to Bob", True),
        ("Ann will pay the rent of the old house near the river to Bob Bob", True),
    ],
)
def test_who_and_whom_exchanged_is_another_sentence(text, met):
    wanted = "Ann will pay the rent of the old house near the river to Bob"
    assert said("text_like", make_evidence(answer=text), text=wanted, at_least=0.7) is met


def test_a_formula_cannot_be_made_to_fit_the_field():
    """An earlier version had one fixed prime: `p + 5` was 5."""
    prime = 2**127 - 39
    for text in (f"{prime}+5", f"5+{prime}x", f"x^{prime}", "i", str(pow(3, (prime - 1) // 4, prime))):
        assert same_math(text, "5" if text[0] != "x" else "x")[0] is False


@pytest.mark.parametrize("unit", ["gal", "oz", "ton", "KB", "month", "$", "furlong", "m/s/s", "m^99", "", "m m m m m"])
def test_a_unit_with_two_meanings_is_refused(unit):
    assert same_quantity(f"3 {unit}", "3 m^2")[0] is False


# -- tables, JSON -------------------------------------------------------------------------------------------------------------

ROWS = [{"id": "a", "amount": 12.5}, {"id": "b", "amount": 7}, {"id": "c", "amount": 1204}]


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"id,amount\n" + b"a,12.5\nb,7\nc,1204\n" * 2, ORDERS + b"d,1\n", b"id,amount,amount\na,12.5,9\n", b"id,amount\na\n",
     b"id;amount\na;12.5\nb;7\nc;9\n", b"id,amount\na,nan\nb,inf\nc,1e999\n", b'"' * 200_000, b"id,amount\n" + b"x" * 200_000, b"\xff\xfe",
     b"id,amount\n=A1,12.5\n", ORDERS.replace(b"7", b"7 or 8")],
)  # fmt: skip
def test_a_table_with_other_rows_is_not_met(data):
    evidence = make_evidence({"/t.csv": data})
    for arguments in ({"key": "id"}, {}, {"ordered": True}, {"key": "id", "ordered": True, "tolerance": 0.1}):
        assert said("table_equals", evidence, path="/t.csv", rows=ROWS, **arguments) is False
    assert said("table_total", evidence, path="/t.csv", column="amount", value=1223.5, rows=3) is False


def test_the_order_of_rows_counts_only_if_asked():
    evidence = make_evidence({"/t.csv": b"id,amount\nb,7\na,12.5\nc,1204\n"})
    assert said("table_equals", evidence, path="/t.csv", rows=ROWS)
    assert said("table_equals", evidence, path="/t.csv", rows=ROWS, key="id", ordered=True) is False
    assert LIBRARY["table_share"](evidence, "/t.csv", ROWS, ordered=True)[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 5000,
        '{"a": ' * 5000,
        "",
        '{"a": "2"}',
        '{"a": 2, "b": 3}',
        "2",
        '{"a": true}',
    ],
)
def test_json_with_two_meanings_is_refused(text):
    evidence = make_evidence({"/v.json": text.encode()})
    assert said("json_equals", evidence, path="/v.json", value={"a": 2}) is False
    schema = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {"const": 2}}}
    assert said("json_schema", evidence, path="/v.json", schema=schema) is False


def test_a_schema_with_an_unknown_word_is_the_authors_error():
    with pytest.raises(ValueError, match="`oneOf` is not understood"):
        LIBRARY["json_schema"](make_evidence({"/v.json": b"{}"}), "/v.json", {"oneOf": []})


# -- SQLite ----------------------------------------------------------------------------------------------------------------------

GOODS = "create table goods(name text, stock integer); insert into goods values ('tea', 3);"
ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select 'tea' name, max(x) stock from n"
BAD_DATABASES = {
    "empty": b"",
    "header only": b"SQLite format 3\0" + b"\0" * 84,
    "cut": database(GOODS)[:3000],
    "view": database("create view goods as select 'tea' name, 3 stock;"),
    "endless view": database(f"create view goods as {ENDLESS};"),
    "generated": database("create table goods(name text, stock integer as (3)); insert into goods values ('tea');"),
    "virtual": database("create virtual table goods using fts5(name, stock); insert into goods values ('tea', 3);"),
    "other rows": database(GOODS + "insert into goods values ('oil', 3);"),
    "text for a number": database("create table goods(name text, stock); insert into goods values ('tea', '3');"),
}


@pytest.mark.parametrize("name", BAD_DATABASES)
def test_a_hostile_database_is_not_met(name):
    evidence = make_evidence({"/s.db": BAD_DATABASES[name]})
    assert said("sql_rows", evidence, path="/s.db", query="select name, stock from goods", rows=[["tea", 3]]) is False


@pytest.mark.parametrize(
    "query",
    ["insert into goods values ('x', 1)", "attach 'x.db' as y", "pragma user_version = 3", "select load_extension('x')", "drop table goods",
     f"select * from ({ENDLESS})", "select zeroblob(1000000000)", "vacuum into '/tmp/x.db'", "create temp table t(x)"],
)  # fmt: skip
def test_a_query_only_reads(query):
    with pytest.raises(NotInEvidence):
        LIBRARY["sql_value"](make_evidence({"/s.db": database(GOODS)}), "/s.db", query, 1)


def test_changes_that_were_not_written_back_are_not_believed():
    evidence = make_evidence({"/s.db": database(GOODS), "/s.db-wal": b"something"})
    with pytest.raises(NotInEvidence, match="not written into"):
        LIBRARY["sql_value"](evidence, "/s.db", "select stock from goods", 3)


def test_rows_that_are_large_together_are_not_met():
    """One megabyte in the file, a hundred of them in the result."""
    data = database(
        "create table t(x text); insert into t select hex(zeroblob(500000)); create table u(y); "
        "insert into u with recursive n(y) as (select 1 union all select y + 1 from n limit 100) select y from n;"
    )
    evidence = make_evidence({"/s.db": data})
    for query in ("select x from t, u", "select cast(x as blob) from t, u"):
        with pytest.raises(NotInEvidence, match="more than 64 MiB"):
            LIBRARY["sql_rows"](evidence, "/s.db", query, [["0"]])
    assert said("sql_value", evidence, path="/s.db", query="select sum(length(x)) from t, u", value=100_000_000)
    with pytest.raises(NotInEvidence, match="more than 10,000 rows"):
        LIBRARY["sql_rows"](evidence, "/s.db", "select 1 from u, u as v, u as w", [[1]])


# -- git -------------------------------------------------------------------------------------------------------------------------


def test_a_packed_repository_reads_as_git_reads_it(tmp_path):
    """Deltas, packed names, merges and tags, made by git itself."""
    more = """
for n in $(seq 30); do seq $n 400 > long.txt; echo $n > "file $n"; git add .; git commit -qm "Change $n"; done
git checkout -qb side HEAD~5; echo side > side.txt; git add .; git commit -qm Side; git checkout -q main
git merge -q --no-ff -m "Merge side" side; git tag -a v1 -m one; git gc -q --aggressive --prune=now
"""
    files = repository(tmp_path, COMMITS + more)
    assert not any("/objects/0" in path for path in files)
    evidence = make_evidence(files)
    log = subprocess.run(["git", "log", "--format=%s", "main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said("git_commits", evidence, repo="/work/repo", branch="main", count=len(log.splitlines()), subjects=["Merge side"])
    assert said("git_clean", evidence, repo="/work/repo")
    assert said("git_contains", evidence, repo="/work/repo", commit="side", branch="v1")
    assert said("git_contains", evidence, repo="/work/repo", commit="v1", branch="side") is False
    assert said("git_file", evidence, repo="/work/repo", path="file 7", text="7", branch="side")
    old = subprocess.run(["git", "show", "HEAD~20:long.txt"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    first = subprocess.run(
        ["git", "rev-parse", "HEAD~20"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert said("git_file", evidence, repo="/work/repo", path="long.txt", text=old, branch=first)
    assert said("git_commits", evidence, repo="/work/repo", branch="main", since="side", count=6)


def test_a_secret_in_an_old_commit_is_found(tmp_path):
    evidence = make_evidence(
        repository(tmp_path, f"{COMMITS}; echo hunter2 > key; git add .; git commit -qm Key; git rm -q key; git commit -qm Gone")
    )
    assert said("git_lacks", evidence, repo="/work/repo", texts=["hunter2"]) is False
    assert said("git_lacks", evidence, repo="/work/repo", texts=["hunter3"])
    assert said("git_lacks", evidence, repo="/work/repo", texts=["Gone"]) is False


def test_nothing_of_the_agents_git_is_believed(tmp_path):
    """A replaced object, hooks, configuration, a mail map: real git shows another subject; the check does not."""
    more = """
good=$(git rev-parse HEAD); forged=$(git commit-tree -m Forged "HEAD^{tree}"); git replace $good $forged
git config core.fsmonitor "touch /tmp/owned"; git config alias.log '!echo Forged'; echo 'touch /tmp/owned' > .git/hooks/post-checkout
"""
    files = repository(tmp_path, COMMITS + more)
    shown = subprocess.run(["git", "log", "-1", "--format=%s"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "Forged"
    assert said("git_commits", make_evidence(files), repo="/work/repo", subjects=["Fix the total"], count=2)


@pytest.mark.parametrize("damage", ["bomb", "other", "cut", "text"])
def test_a_damaged_object_is_not_met(tmp_path, damage):
    files = repository(tmp_path, COMMITS)
    make = {
        "bomb": lambda: zlib.compress(b"blob 99999999\0" + b"0" * 34_000_000, level=1),
        "other": lambda: zlib.compress(b"blob 3\x0042\n"),
        "cut": lambda: b"x\x9c",
        "text": lambda: b"hello",
    }
    data = make[damage]()
    for path in files:
        if "/objects/" in path:
            files[path] = data
    evidence = make_evidence(files)
    assert said("git_file", evidence, repo="/work/repo", path="total.txt", text="42") is False
    assert said("git_commits", evidence, repo="/work/repo", count=2) is False
    assert said("git_clean", evidence, repo="/work/repo") is False


@pytest.mark.parametrize("head", [b"", b"ref: HEAD\n", b"ref: refs/heads/none\n", b"0" * 40, b"\xff", b"ref: ../../etc/passwd"])
def test_a_repository_with_a_wrong_head_is_not_met(tmp_path, head):
    files = repository(tmp_path, COMMITS) | {"/work/repo/.git/HEAD": head}
    assert said("git_commits", make_evidence(files), repo="/work/repo", count=2) is False


def stored(files: dict[str, bytes], kind: str, data: bytes) -> str:
    """The hash of a loose object that is put into a repository."""
    whole = f"{kind} {len(data)}\0".encode() + data
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    files[f"/work/repo/.git/objects/{name[:2]}/{name[2:]}"] = zlib.compress(whole)
    return name


def folder_entry(name: str, tree: str) -> bytes:
    return f"40000 {name}\0".encode() + bytes.fromhex(tree)


def committed(files: dict[str, bytes], tree: str, parent: str = "") -> str:
    before = f"parent {parent}\n" if parent else ""
    return stored(files, "commit", f"tree {tree}\n{before}author a <a@x> 1 +0000\n\nm\n".encode())


def test_a_large_folder_under_many_names_is_read_once():
    """40 commits, each with the same 5,000 files in a folder of another name: no list of all the paths is made."""
    files: dict[str, bytes] = {}
    blob = bytes.fromhex(stored(files, "blob", b"secret"))
    large = stored(files, "tree", b"".join(b"100644 %05d\0" % number + blob for number in range(5000)))
    tip = ""
    for number in range(40):
        tip = committed(files, stored(files, "tree", folder_entry(f"d{number}", large)), tip)
    evidence = make_evidence(files | {"/work/repo/.git/HEAD": tip.encode()})
    tracemalloc.start()
    try:
        assert said("git_lacks", evidence, repo="/work/repo", texts=["other"])
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 8 * 2**20
    assert said("git_lacks", evidence, repo="/work/repo", texts=["secret"]) is False


@pytest.mark.parametrize("leaf", [b"", b"100644 a\0"])
def test_folders_that_multiply_are_not_met(monkeypatch, leaf):
    """Each of 40 folders has the one below it twice."""
    monkeypatch.setattr(repositories, "_MAX_ENTRIES", 5000)
    files: dict[str, bytes] = {}
    tree = stored(files, "tree", leaf + bytes.fromhex(stored(files, "blob", b"x")) if leaf else b"")
    for _ in range(40):
        tree = stored(files, "tree", folder_entry("a", tree) + folder_entry("b", tree))
    evidence = make_evidence(files | {"/work/repo/.git/HEAD": committed(files, tree).encode()})
    with pytest.raises(NotInEvidence, match="more than 5,000 entries"):
        LIBRARY["git_file"](evidence, repo="/work/repo", path="a", text="x")
    assert said("git_lacks", evidence, repo="/work/repo", texts=["secret"])


def test_long_paths_are_not_met():
    files: dict[str, bytes] = {}
    tree = stored(files, "tree", b"")
    for _ in range(5):
        tree = stored(files, "tree", folder_entry("a" * 1000, tree))
    evidence = make_evidence(files | {"/work/repo/.git/HEAD": committed(files, tree).encode()})
    with pytest.raises(NotInEvidence, match="4,096"):
        LIBRARY["git_lacks"](evidence, repo="/work/repo", texts=["secret"])


class CountedReads:
    """Evidence that counts how often each file is read."""

    def __init__(self, files):
        self.evidence, self.reads = make_evidence(files), Counter()

    def list(self, folder):
        return self.evidence.list(folder)

    def read(self, path):
        self.reads[path] += 1
        return self.evidence.read(path)

    def read_text(self, path):
        return self.read(path).decode()


def test_many_branches_are_read_in_one_pass():
    files: dict[str, bytes] = {}
    tip, tree = "", stored(files, "tree", b"")
    for _ in range(100):
        tip = committed(files, tree, tip)
    files["/work/repo/.git/HEAD"] = tip.encode()
    files["/work/repo/.git/packed-refs"] = "".join(f"{tip} refs/heads/b{number}\n" for number in range(3000)).encode()
    evidence = CountedReads(files)
    assert said("git_lacks", evidence, repo="/work/repo", texts=["secret"])
    assert set(evidence.reads.values()) == {1}


@pytest.mark.parametrize("packed", [True, False])
def test_too_many_branches_are_not_met(packed):
    files: dict[str, bytes] = {}
    tip = committed(files, stored(files, "tree", b""))
    files["/work/repo/.git/HEAD"] = tip.encode()
    if packed:
        files["/work/repo/.git/packed-refs"] = "".join(f"{tip} refs/heads/b{number}\n" for number in range(10_001)).encode()
    else:
        files |= {f"/work/repo/.git/refs/heads/b{number}": tip.encode() for number in range(10_001)}
    with pytest.raises(NotInEvidence, match="branches and tags"):
        LIBRARY["git_lacks"](make_evidence(files), repo="/work/repo", texts=["secret"])


# -- mail ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", MAIL.replace(b"42.50", b"142.50"), MAIL.replace(b"We refunded", b"We did not refund"), b"To: bob@example.com\n" + MAIL,
     MAIL.replace(b"ann@example.com>", b"ann@example.com>, Bob <bob@example.com>"), MAIL.replace(b"To: Ann", b"Cc: Ann"),
     b"Content-Type: text/plain; charset=punycode\n" + MAIL.replace(b"42.50", b"a-" * 100_000), b"To: " + b"<" * 100_000 + b"\n\nx",
     b"Content-Type: multipart/mixed; boundary=a\n" + MAIL + b"--a\n" * 5000, b"Subject: =?utf-8?q?" + b"=" * 5000 + b"?=\n" + MAIL,
     b"Subject: =?zlib?b?eJw=?=\n\nx", b"\xff\xfe\0" * 100],
)  # fmt: skip
def test_another_mail_is_not_met(data):
    evidence = make_evidence({"/m.eml": data})
    wanted = {"to": ["ann@example.com"], "says": ["refunded 42.50"]}
    assert said("mail_message", evidence, path="/m.eml", **wanted) is False
    assert said("mailbox_message", evidence, path="/m.eml", **wanted) is False


def test_attachments_are_compared_by_their_bytes():
    parts = (
        b"From: a@b.c\nTo: ann@example.com\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nhello\n"
    )
    parts += b"--x\nContent-Disposition: attachment; filename=a.csv\nContent-Transfer-Encoding: base64\n\naWQK\n--x--\n"
    evidence = make_evidence({"/m.eml": parts})
    wrong = sha256(b"id")
    assert said("mail_message", evidence, path="/m.eml", to=["ann@example.com"], attachments={"a.csv": sha256(b"id\n")})
    assert said("mail_message", evidence, path="/m.eml", to=["ann@example.com"], attachments={"a.csv": wrong}) is False
    assert said("mail_message", evidence, path="/m.eml", to=["ann@example.com"], attachments={}) is False


# -- pictures --------------------------------------------------------------------------------------------------------------------


def forged_png(width: int, height: int, data: bytes, kind: int = 2) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x89PNG\r\n\x1a\n", forged_png(90_000, 90_000, b""), forged_png(1000, 1000, zlib.compress(b"\0" * 5_000_000)),
     forged_png(2, 2, zlib.compress(b"\x09" + b"\0" * 13)), forged_png(2, 2, b"junk"), forged_png(2, 2, zlib.compress(b"\0\5\5" * 2), 3),
     forged_png(0, 5, b""), b"GIF89a\xff\xff\xff\xff", b"\xff\xd8" + b"\xff\xe0\0\x02" * 1000, png(8, 8, lambda _x, _y: (0, 0, 255))],
)  # fmt: skip
def test_another_picture_is_not_met(data):
    evidence = make_evidence({"/p.png": data})
    assert said("image_colors", evidence, path="/p.png", colors={"#ff0000": 0.1}) is False
    assert said("image_like", evidence, path="/p.png", hash="0f0f3333555500ff") is False
    assert said("image_size", evidence, path="/p.png", width=640, height=480) is False


@pytest.mark.parametrize("filters", [0, 1, 2, 3, 4])
def test_every_filter_of_png_decodes_to_what_its_definition_says(filters):
    """The slow obvious twin: the five filters of the PNG standard, byte by byte."""
    rng = Random(filters)
    data = png(9, 7, lambda _x, _y: [rng.randrange(256) for _ in range(3)], filters=filters)
    raw = zlib.decompress(data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8])
    rows, above = [], [0] * 27
    for row in range(7):
        line, made = raw[row * 28 + 1 : row * 28 + 28], []
        for place, value in enumerate(line):
            a, b, c = (made[place - 3] if place > 2 else 0), above[place], (above[place - 3] if place > 2 else 0)
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            made.append((value + (0, a, b, (a + b) // 2, paeth)[filters]) % 256)
        rows.append(made)
        above = made
    plain = png(9, 7, lambda x, y: rows[y][x * 3 : x * 3 + 3])
    assert image_hash(data) == image_hash(plain)


def test_a_flat_picture_is_like_no_other():
    with pytest.raises(ValueError, match="nearly flat"):
        LIBRARY["image_like"](make_evidence({"/p": png(8, 8, lambda _x, _y: (0, 0, 0))}), "/p", "0" * 16)


# -- text, trees -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["We did not pay 42.50 to Ann.", "Ann 142.50", " ".join(f"{n / 100:.2f}" for n in range(10_000)) + " Ann", "Annie 42.500001"],
)
def test_a_fact_that_is_denied_or_part_of_another_is_not_stated(text):
    evidence = make_evidence(answer=text)
    assert LIBRARY["text_states"](evidence, ["42.50", "Ann"], absent=["52.50"], at_most_words=100)[0] < 1


def test_a_tree_with_a_link_or_one_file_more_is_not_equal():
    files = {"/out/a": b"1", "/out/b/c": b"2"}
    wanted = {"a": "1", "b/c": "2"}
    assert said("tree_equals", make_evidence(files), folder="/out", files=wanted)
    assert said("tree_equals", make_evidence(files | {"/out/d": b""}), folder="/out", files=wanted) is False
    assert said("tree_equals", make_evidence(files, kinds={"/out/d": "link"}), folder="/out", files=wanted) is False
    assert said("tree_equals", make_evidence(files | {"/out/d.log": b""}), folder="/out", files=wanted, ignore=["*.log"])
