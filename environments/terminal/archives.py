"""Tar files: find the backup that can be trusted, and pack a release that can be."""

import io
import tarfile
from hashlib import sha256
from random import Random

from .job import WORDS, Job, lines, token

BACKUPS = """/backup holds archives named by the day they were made, and SHA256SUMS with their checksums as they were then.
Some archives have been damaged since. Take the newest one whose checksum still agrees and restore the folder `{folder}` of it to
/srv/{folder}, each file under the same name as in the archive below `{folder}/`. Write the names of the damaged archives to
/out/damaged.txt, sorted."""
RELEASE = """/srv/{name} is to be released. Write two files:

1. /out/unsafe.txt: the paths, relative to /srv/{name} and sorted, of all files that everybody may write to, or that are setuid.
2. /out/release.tar: an uncompressed tar of the files with names `{name}-{version}/PATH`, owned by user and group 0. Files whose
   first two bytes are `#!` have mode 755, all others 644. Leave out everything in a folder called `secrets`, at any depth, every
   file whose name begins with a dot, and nothing else."""


def newest_intact(rng: Random) -> Job:
    folder = rng.choice(WORDS)
    days = sorted(rng.sample(range(1, 29), 8))
    names = [f"2026-02-{day:02}.tar" for day in days]
    contents = [
        {f"{folder}/{word}.txt": f"{token(rng, 40)}\n" for word in rng.sample(WORDS, 4)}
        | {f"{folder}/deep/{token(rng, 4)}.txt": token(rng)}
        | {"other/readme.txt": token(rng)}
        for _ in names
    ]
    whole = [packed(files) for files in contents]
    intact = rng.randrange(3, 6)
    damaged = [place > intact or (place < intact and rng.random() < 0.3) for place in range(len(names))]
    stored = [spoilt(rng, archive) if bad else archive for archive, bad in zip(whole, damaged, strict=True)]
    sums = [f"{sha256(archive).hexdigest()}  {name}" for name, archive in zip(names, whole, strict=True)]
    rng.shuffle(sums)
    restored = {f"/srv/{path}": text for path, text in contents[intact].items() if path.startswith(f"{folder}/")}
    return Job(
        prompt=BACKUPS.format(folder=folder),
        files={"/backup/SHA256SUMS": lines(sums)},
        archives={f"/backup/{name}": archive for name, archive in zip(names, stored, strict=True)},
        wants=[
            {
                "kind": "files",
                "folder": f"/srv/{folder}",
                "digests": {path: sha256(text.encode()).hexdigest() for path, text in restored.items()},
            },
            {
                "kind": "text",
                "path": "/out/damaged.txt",
                "value": "\n".join(name for name, bad in zip(names, damaged, strict=True) if bad),
            },
        ],
        kept=("/backup/SHA256SUMS", *(f"/backup/{name}" for name in names)),
        solution=[
            "cd /backup && sha256sum -c SHA256SUMS 2>/dev/null > /tmp/sums; cat /tmp/sums",
            "mkdir -p /out && grep FAILED /tmp/sums | cut -d: -f1 | sort > /out/damaged.txt",
            f"tar -C /srv -xf /backup/$(grep OK /tmp/sums | cut -d: -f1 | sort | tail -1) {folder}",
        ],
    )


def safe_release(rng: Random) -> Job:
    name, version = rng.choice(WORDS), f"{rng.randrange(1, 9)}.{rng.randrange(20)}"
    files: dict[str, str] = {}
    for word in rng.sample(WORDS, 10):
        place = rng.choice(["", "bin/", "lib/", "lib/inner/", "share/"])
        script = rng.random() < 0.4
        files[f"{place}{word}{rng.choice(['', '.sh', '.txt'])}"] = (
            f"#!/bin/sh\necho {token(rng)}\n" if script else f"{token(rng)}\n"
        )
    files |= {"secrets/key.pem": token(rng, 40), "lib/secrets/inner.key": token(rng), f".{rng.choice(WORDS)}": token(rng)}
    files |= {"lib/.hidden": token(rng), "share/secrets.txt": f"{token(rng)}\n"}
    modes = {path: rng.choice(["644", "755", "666", "4755", "640", "777", "700"]) for path in files}
    unsafe = sorted(path for path, mode in modes.items() if mode in {"666", "777", "4755"})
    released = {
        path: text
        for path, text in files.items()
        if "secrets" not in path.split("/")[:-1] and not path.split("/")[-1].startswith(".")
    }
    root = f"/srv/{name}"
    stage = f"/root/stage/{name}-{version}"
    return Job(
        prompt=RELEASE.format(name=name, version=version),
        files={f"{root}/{path}": text for path, text in files.items()},
        script="\n".join(["set -e", *(f"chmod {mode} {root}/{path}" for path, mode in sorted(modes.items()))]),
        wants=[
            {"kind": "text", "path": "/out/unsafe.txt", "value": lines(unsafe)},
            {
                "kind": "tar",
                "path": "/out/release.tar",
                "members": {
                    f"{name}-{version}/{path}": [
                        "755" if text.startswith("#!") else "644",
                        "0:0",
                        sha256(text.encode()).hexdigest(),
                    ]
                    for path, text in released.items()
                },
            },
        ],
        kept=tuple(f"{root}/{path}" for path in files),
        solution=[
            f"mkdir -p /out && cd {root} && find * .[!.]* -type f -perm /4002 | LC_ALL=C sort > /out/unsafe.txt",
            f"mkdir -p {stage} && cp -r {root}/. {stage} && find {stage} -depth -type d -name secrets -exec rm -r {{}} +",
            f"find {stage} -type f -name '.*' -delete; find {stage} -type f -exec chmod 644 {{}} +",
            f'grep -rl \'^#!\' {stage} | while read -r p; do [ "$(head -c2 "$p")" = \'#!\' ] && chmod 755 "$p"; done',
            f"tar -C {stage}/.. --owner=0 --group=0 -cf /out/release.tar {name}-{version} && tar -tvf /out/release.tar",
        ],
    )


def packed(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(text.encode()), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def spoilt(rng: Random, archive: bytes) -> bytes:
    """One byte of the first file's content is another one."""
    place = 512 + rng.randrange(12)
    return archive[:place] + bytes([archive[place] ^ 1]) + archive[place + 1 :]
