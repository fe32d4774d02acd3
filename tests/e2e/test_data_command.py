"""`sandlot data`, from files of others to rows for training."""

import json

from drive.command_line import refused


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_import_redact_dedupe_validate_stats(sandlot, tmp_path):
    (tmp_path / "dump").mkdir()
    write(
        tmp_path / "dump" / "a.jsonl",
        {"q": "Write to ada@example.org today please, it is urgent.", "n": 1},
        {"q": "What is two plus two?", "n": 2},
    )
    (tmp_path / "dump" / "b.csv").write_text("q,n\nwhat is TWO plus two,3\n")
    done = sandlot("data", "import", "dump", "--out", "all.jsonl", "--redact", "--report", "report.json", cwd=tmp_path)
    assert "3 rows, 1 changed -> all.jsonl" in done.out
    assert "ada@example.org" not in done.out + (tmp_path / "all.jsonl").read_text() + (tmp_path / "report.json").read_text()
    first = json.loads((tmp_path / "all.jsonl").read_text().splitlines()[0])
    assert (first["provenance"]["file"], first["provenance"]["line"]) == ("dump/a.jsonl", 1)

    found = sandlot("data", "dedupe", "all.jsonl", "--field", "q", cwd=tmp_path)
    assert found.code == 1
    assert "dump/b.csv:1" in found.out
    assert sandlot("data", "dedupe", "all.jsonl", "--field", "q", "--out", "kept.parquet", cwd=tmp_path).code == 0
    kept = sandlot("data", "dedupe", "all.jsonl", "--field", "q", "--out", "kept.jsonl", "--json", cwd=tmp_path)
    assert (kept.code, kept.json["kinds"], kept.json["kept"]) == (0, {"exact": 1}, 2)

    write(tmp_path / "heldout.jsonl", {"q": "It is: what is two plus two?"})
    write(tmp_path / "train.jsonl", {"q": "Hello. It is: what is two plus two? Tell me."})
    against = sandlot("data", "dedupe", "train.jsonl", "--against", "heldout.jsonl", "--json", cwd=tmp_path)
    assert (against.code, against.json["kinds"]) == (1, {"contaminated": 1})

    wrong = sandlot("data", "validate", "kept.jsonl", "--schema", "task", cwd=tmp_path)
    assert (wrong.code, "dump/a.jsonl:1: " in wrong.out) == (1, True)
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["q"]}')
    assert sandlot("data", "validate", "kept.jsonl", "--schema", "schema.json", cwd=tmp_path).code == 0
    assert "2 rows of 1 file" in sandlot("data", "stats", "kept.jsonl", cwd=tmp_path).out


def test_wrong_use_is_one_sentence(sandlot, tmp_path):
    assert "no file or folder" in refused(sandlot("data", "stats", "missing.jsonl", cwd=tmp_path))
    write(tmp_path / "a.jsonl", {"x": "\u001b[31mred"})
    assert "\x1b" not in sandlot("data", "stats", "a.jsonl", cwd=tmp_path).out
    assert "no kind `faces`" in refused(sandlot("data", "redact", "a.jsonl", "--out", "b.jsonl", "--kind", "faces", cwd=tmp_path))
    assert "already exists" in refused(sandlot("data", "import", "a.jsonl", "--out", "a.jsonl", cwd=tmp_path))
