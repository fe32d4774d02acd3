"""Files as others leave them: in five encodings, packed in each other under wrong names, two lists of accounts to merge."""

import bz2
import gzip
import io
import lzma
import zipfile
from hashlib import sha256
from random import Random

from .archives import packed
from .job import PEOPLE, WORDS, Job, lines, token

ENCODINGS = """/srv/letters holds text files from many machines: UTF-8 with and without a byte order mark, UTF-16 (always
with a byte order mark, of either kind) and Latin-1, with line ends of Unix, Windows or old Macs. Convert every file in
place to UTF-8 without a byte order mark, with Unix line ends, each file ending with exactly one line end. A file that is
valid UTF-8 is UTF-8. Files that are not text (they hold a zero byte and have no UTF-16 mark) stay as they are; write their
names to /out/binary.txt, sorted."""
NESTED = """Somewhere inside /srv/drop is the file `{wanted}`, packed: archives lie in archives, and their names lie about
what they are (tar, zip, gzip, bzip2, xz; look at the bytes). Write its content to /out/found.txt, and to /out/path.txt the
way to it, outermost first: the names of all archives and members, joined by ` > `, as they are called (for compressed
single files, which hold no name, the content is called `content`). There are other files of the same name; the right one
has the line `serial {serial}`."""
ACCOUNTS = """Two machines become one. /srv/merge/a and /srv/merge/b hold their `passwd` files. Write /out/passwd for the
new machine:

- every account of a as it is;
- of b, the accounts whose name is not in a: with their uid if no account in the new file has it, otherwise with the lowest
  uid from {first} on that is free in a and in b and not yet given away;
- b's accounts are taken in the order of their file; gid becomes equal to the new uid where it was equal to the old one;
- shells that are not in /srv/merge/shells become /usr/sbin/nologin, for accounts of both; sorted by uid.

Write /out/renumbered.csv: `name,old,new` for every account of b with another uid, in the order of b's file."""


def mixed_encodings(rng: Random) -> Job:
    archives: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    binary: list[str] = []
    kinds = ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1", "utf-8", "latin-1", "binary", "binary"]
    rng.shuffle(kinds)
    for word, kind in zip(rng.sample(WORDS, len(kinds)), kinds, strict=True):
        path = f"/srv/letters/{word}.txt"
        if kind == "binary":
            data = bytes(rng.randrange(1, 256) for _ in range(40)) + b"\0" + token(rng).encode() + b"\r\n"
            data = b"\x89" + data[1:]
            binary.append(f"{word}.txt")
            archives[path], digests[path] = data, sha256(data).hexdigest()
            continue
        rows = [f"{rng.choice(['Grüße', 'déjà', 'señor', 'Å', 'façade'])} {token(rng, 8)}" for _ in range(rng.randrange(3, 7))]
        end = rng.choice(["\n", "\r\n", "\r"])
        text = end.join(rows) + rng.choice(["", end, end * 3])
        mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(kind, b"")
        archives[path] = mark + text.encode(kind)
        digests[path] = sha256(lines(rows).encode()).hexdigest()
    solution = r"""mkdir -p /out; cat > /tmp/text.py <<'END'
import glob, os
binary = []
for path in glob.glob("/srv/letters/*"):
    data = open(path, "rb").read()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16")
    elif b"\0" in data:
        binary.append(os.path.basename(path))
        continue
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n"
    open(path, "wb").write(text.encode())
open("/out/binary.txt", "w").write("".join(name + "\n" for name in sorted(binary)))
END
python3 /tmp/text.py && cat /out/binary.txt"""
    return Job(
        prompt=ENCODINGS,
        archives=archives,
        wants=[
            {"kind": "files", "folder": "/srv/letters", "digests": digests},
            {"kind": "text", "path": "/out/binary.txt", "value": lines(sorted(binary))},
        ],
        solution=[solution],
    )


def nested_archives(rng: Random) -> Job:
    wanted, serial = f"{rng.choice(WORDS)}.key", token(rng, 10)
    archives: dict[str, bytes] = {}
    answer = ("", "")
    tops = rng.sample(WORDS, 4)
    right = rng.randrange(4)
    for place, top in enumerate(tops):
        mine = serial if place == right else token(rng, 10)
        content = f"{wanted}\nserial {mine}\n{token(rng, 30)}\n"
        data, way = content.encode(), [wanted]
        data = in_archive(rng, wanted, data)
        for _ in range(rng.randrange(1, 4)):
            if rng.random() < 0.45:
                data = rng.choice([gzip.compress(data, mtime=0), bz2.compress(data), lzma.compress(data)])
                way.insert(0, "content")
            else:
                inner = f"{rng.choice(WORDS)}{rng.choice(['.zip', '.tar', '.doc', '.gz', '.xz', ''])}"
                data = in_archive(rng, inner, data)
                way.insert(0, inner)
        name = f"{top}{rng.choice(['.bin', '.zip', '.tar.gz', '.log', '.xz'])}"
        archives[f"/srv/drop/{name}"] = data
        if place == right:
            answer = (content, " > ".join([name, *way]))
    solution = f"""mkdir -p /out; cat > /tmp/dig.py <<'END'
import bz2, glob, gzip, io, lzma, os, tarfile, zipfile
def dig(data, way):
    if data[:2] == b"\\x1f\\x8b":
        dig(gzip.decompress(data), way + ["content"])
    elif data[:3] == b"BZh":
        dig(bz2.decompress(data), way + ["content"])
    elif data[:6] == b"\\xfd7zXZ\\0":
        dig(lzma.decompress(data), way + ["content"])
    elif data[:2] == b"PK":
        archive = zipfile.ZipFile(io.BytesIO(data))
        for name in archive.namelist():
            dig(archive.read(name), way + [name])
    elif data[257:262] == b"ustar":
        archive = tarfile.open(fileobj=io.BytesIO(data))
        for member in archive:
            dig(archive.extractfile(member).read(), way + [member.name])
    elif way[-1] == "{wanted}" and b"\\nserial {serial}\\n" in data:
        open("/out/found.txt", "wb").write(data)
        open("/out/path.txt", "w").write(" > ".join(way) + "\\n")
for path in glob.glob("/srv/drop/*"):
    dig(open(path, "rb").read(), [os.path.basename(path)])
END
python3 /tmp/dig.py && cat /out/path.txt"""
    return Job(
        prompt=NESTED.format(wanted=wanted, serial=serial),
        archives=archives,
        wants=[
            {"kind": "text", "path": "/out/found.txt", "value": answer[0]},
            {"kind": "text", "path": "/out/path.txt", "value": answer[1]},
        ],
        kept=tuple(archives),
        solution=[solution],
    )


def in_archive(rng: Random, name: str, data: bytes) -> bytes:
    """A zip or tar that holds it, beside something else."""
    other = f"{rng.choice(WORDS)}.note"
    if rng.random() < 0.5:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for member, content in ((other, token(rng).encode()), (name, data)):
                archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), content)
        return out.getvalue()
    return packed({other: token(rng)}) if not data else packed_bytes({other: token(rng).encode(), name: data})


def packed_bytes(files: dict[str, bytes]) -> bytes:
    import tarfile  # noqa: PLC0415 - one use

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def merged_accounts(rng: Random) -> Job:
    shells = ["/bin/sh", "/bin/bash", "/usr/sbin/nologin"]
    first = 2000

    def row(name: str, uid: int, *, own_group: bool) -> list[str]:
        shell = rng.choice([*shells, "/bin/ksh", "/usr/bin/fish"])
        return [name, "x", str(uid), str(uid if own_group else 100), rng.choice(PEOPLE), f"/home/{name}", shell]

    names = rng.sample(WORDS, 18)
    uids = rng.sample(range(1000, 1040), 10)
    a = [row(name, uid, own_group=rng.random() < 0.7) for name, uid in zip(names[:9], uids, strict=False)]
    b_uids = rng.sample([*uids[:6], *range(1040, 1050), *range(2000, 2004)], 11)
    b = [row(name, uid, own_group=rng.random() < 0.7) for name, uid in zip([*names[7:18]], b_uids, strict=True)]
    rng.shuffle(b)
    taken = {int(each[2]) for each in a}
    blocked = taken | {int(each[2]) for each in b}
    merged, renumbered = [list(each) for each in a], []
    for each in b:
        if each[0] in {row_[0] for row_ in a}:
            continue
        old = int(each[2])
        new = old if old not in taken else next(uid for uid in range(first, 9999) if uid not in blocked and uid not in taken)
        taken.add(new)
        if new != old:
            renumbered.append(f"{each[0]},{old},{new}")
        merged.append([each[0], "x", str(new), str(new) if each[3] == each[2] else each[3], *each[4:]])
    merged.sort(key=lambda each: int(each[2]))
    text = lines([":".join([*each[:6], each[6] if each[6] in shells else "/usr/sbin/nologin"]) for each in merged])
    solution = f"""mkdir -p /out; cat > /tmp/merge.py <<'END'
read = lambda path: [row.rstrip("\\n").split(":") for row in open(path)]
a, b, shells = read("/srv/merge/a/passwd"), read("/srv/merge/b/passwd"), open("/srv/merge/shells").read().split()
names, taken = {{row[0] for row in a}}, {{int(row[2]) for row in a}}
blocked, changed, out = taken | {{int(row[2]) for row in b}}, [], [row[:] for row in a]
for row in b:
    if row[0] in names:
        continue
    old = int(row[2])
    new = old if old not in taken else next(uid for uid in range({first}, 9999) if uid not in blocked | taken)
    taken.add(new)
    if new != old:
        changed.append(f"{{row[0]}},{{old}},{{new}}")
    out.append([row[0], "x", str(new), str(new) if row[3] == row[2] else row[3]] + row[4:])
for row in out:
    row[6] = row[6] if row[6] in shells else "/usr/sbin/nologin"
out.sort(key=lambda row: int(row[2]))
open("/out/passwd", "w").write("".join(":".join(row) + "\\n" for row in out))
open("/out/renumbered.csv", "w").write("".join(row + "\\n" for row in changed))
END
python3 /tmp/merge.py && cat /out/*"""
    files = {
        "/srv/merge/a/passwd": lines([":".join(each) for each in a]),
        "/srv/merge/b/passwd": lines([":".join(each) for each in b]),
        "/srv/merge/shells": lines(shells),
    }
    if not renumbered:
        return merged_accounts(Random(rng.getrandbits(64)))
    return Job(
        prompt=ACCOUNTS.format(first=first),
        files=files,
        wants=[
            {"kind": "text", "path": "/out/passwd", "value": text},
            {"kind": "text", "path": "/out/renumbered.csv", "value": lines(renumbered)},
        ],
        kept=tuple(files),
        solution=[solution],
    )
