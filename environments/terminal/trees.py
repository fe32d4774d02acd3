"""A folder in which the same content lies under many names."""

from hashlib import sha256
from random import Random

from .job import WORDS, Job, lines, token

PROMPT = """In /data/{folder} the same content often lies in several files. Of all files with the same content keep the one with
the shortest path, of equally short paths the one first in byte order, and delete the others. Empty files are all kept. Write the
paths of the deleted files, relative to /data/{folder} and sorted, to /out/deleted.txt."""
SOLUTION = r"""mkdir -p /out; cat > /tmp/once.py <<'END'
import hashlib, os
root, first, deleted = "/data/{folder}", {{}}, []
paths = [os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names]
for path in sorted(paths, key=lambda each: (len(each), each)):
    data = open(os.path.join(root, path), "rb").read()
    if data and first.setdefault(hashlib.sha256(data).digest(), path) != path:
        os.remove(os.path.join(root, path))
        deleted.append(path)
open("/out/deleted.txt", "w").write("".join(path + "\n" for path in sorted(deleted)))
END
python3 /tmp/once.py && wc -l /out/deleted.txt"""


def same_content(rng: Random) -> Job:
    folder = rng.choice(WORDS)
    root = f"/data/{folder}"
    contents = [f"{token(rng, 30)}\n" for _ in range(12)] + [""]
    files: dict[str, str] = {}
    for number in range(40):
        place = "/".join(rng.sample(WORDS, rng.randrange(3)))
        name = f"{rng.choice(WORDS)} {number}.txt" if rng.random() < 0.2 else f"{rng.choice(WORDS)}{number}.txt"
        files[f"{place}/{name}".lstrip("/")] = rng.choice(contents)
    first: dict[str, str] = {}
    deleted = [
        path
        for path in sorted(files, key=lambda each: (len(each), each))
        if files[path] and first.setdefault(files[path], path) != path
    ]
    left = {f"{root}/{path}": sha256(text.encode()).hexdigest() for path, text in files.items() if path not in deleted}
    return Job(
        prompt=PROMPT.format(folder=folder),
        files={f"{root}/{path}": text for path, text in files.items()},
        wants=[
            {"kind": "files", "folder": root, "digests": left},
            {"kind": "text", "path": "/out/deleted.txt", "value": lines(sorted(deleted))},
        ],
        solution=[SOLUTION.format(folder=folder)],
    )
