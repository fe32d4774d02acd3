"""The evidence that the examples of `sandlot.checks` read, and the pieces it is made of."""

import hashlib
import sqlite3
import struct
import subprocess
import zlib
from pathlib import Path

from builders.evidence import make_evidence, tool_call

ORDERS = b"id,amount\na,12.50\nb,7\nc,1204\n"
MAIL = b"From: desk@example.com\nTo: Ann <ann@example.com>\nSubject: Re: Your refund\n\nWe refunded 42.50 EUR today.\n"


def png(width: int, height: int, color_at, kind: int = 2, filters: int = 0) -> bytes:
    """A PNG whose pixels a function gives."""
    lines = b"".join(bytes([filters]) + b"".join(bytes(color_at(x, y)) for x in range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    chunks = {b"IHDR": head, b"IDAT": zlib.compress(lines), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, body) for name, body in chunks.items())


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def red_and_white(x: int, y: int) -> tuple[int, int, int]:
    return (255, 0, 0) if x < 16 else (255, 255, 255)


def database(script: str) -> bytes:
    """The bytes of an SQLite file made by a script."""
    opened = sqlite3.connect(":memory:")
    opened.executescript(script)
    data = opened.serialize()
    opened.close()
    return data


def repository(folder: Path, commands: str) -> dict[str, bytes]:
    """The files of a git repository made by these shell commands, as if it were in `/work/repo`."""
    quiet = {"GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.com", "GIT_COMMITTER_NAME": "Ann", "HOME": str(folder)}
    fixed = {"GIT_COMMITTER_EMAIL": "ann@example.com", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "PATH": "/usr/bin:/bin"}
    start = "git -c init.defaultBranch=main init -q . && git config gc.auto 0"
    done = subprocess.run(
        ["bash", "-ec", f"{start}\n{commands}"],
        cwd=folder,
        env=quiet | fixed | {"GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {f"/work/repo/{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


COMMITS = 'echo 41 > total.txt; git add .; git commit -qm Start; echo 42 > total.txt; git commit -qam "Fix the total"'


def example_evidence(folder: Path):
    """What the examples call `evidence`."""
    files = {
        "/out/note.txt": b"Paid in full.\n",
        "/out/orders.csv": ORDERS,
        "/data/orders.csv": ORDERS,
        "/out/site/index.html": b"<p>Hello</p>\n",
        "/out/site/css/main.css": b"p {}\n",
        "/out/report.json": b'{"totals": {"net": 1204.5}, "paid": ["a", "b"]}',
        "/out/shop.db": database(
            "create table goods(name text, stock integer); insert into goods values ('tea', 3), ('oil', 1), ('rice', 0);"
        ),
        "/out/mail.eml": MAIL,
        "/out/sent.mbox": b"From a\n" + MAIL + b"\nFrom b\nTo: bob@example.com\nSubject: Hello\n\nHello Bob.\n",
        "/out/chart.png": png(32, 16, red_and_white),
    }
    evidence = make_evidence(
        files | repository(folder, COMMITS),
        state={"tickets": {"7": {"status": "closed"}}},
        answer="The total is 12.",
        calls=(tool_call("refund", amount=5),),
    )
    evidence.record.initial.update({"/data/orders.csv": evidence.record.files["/data/orders.csv"]})
    evidence.record.initial.update({path: file for path, file in evidence.record.files.items() if path.startswith("/work/")})
    return evidence


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
