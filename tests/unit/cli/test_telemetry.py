"""`--metrics` and `--otlp` of the command line: refused before anything starts, and what was lost is said at the end."""

import socket
from pathlib import Path

from drive.command_line import NOTES, refused
from fakes.otlp_receiver import receiving


def test_a_run_with_both_ends_well_and_says_which_spans_were_lost(sandlot, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    done = sandlot("run", NOTES, "-m", "scripted:golden", "--metrics", 0, "--otlp", url, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["scored"] == 8
    first, last = done.err.splitlines()
    assert first.startswith("metrics: http://127.0.0.1:")
    assert last.startswith(f"sandlot: 81 of 81 spans were not delivered to {url}: ConnectionRefusedError")


def test_delivered_spans_need_no_words(sandlot, tmp_path: Path) -> None:
    with receiving() as receiver:
        done = sandlot("calibrate", NOTES, "-m", "scripted:golden", "--otlp", receiver.url, "--json", cwd=tmp_path)
    assert "spans" not in done.err
    assert receiver.wrong == []
    assert len(receiver.roots()[0].children) >= 8


def test_a_port_in_use_starts_nothing(sandlot, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(sandlot("run", NOTES, "-m", "scripted:golden", "--metrics", port, cwd=tmp_path))
    assert f"cannot listen at 127.0.0.1 port {port}" in said
    assert list(tmp_path.iterdir()) == []
