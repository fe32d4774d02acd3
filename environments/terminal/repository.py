"""Git histories: made from data with every hash known beforehand, and read back from what an agent left.

A history is handed to `git fast-import`, which makes the very objects whose hashes are computed here; dates and names are fixed,
so the repository is the same, byte for byte, each time. For reading, only refs and objects count: an agent's config, hooks and
alternates never meet a git that looks at its work.
"""

import base64
import re
from dataclasses import dataclass, field
from hashlib import sha1

from sandlot import Evidence

START = 1_760_000_000
OBJECT = re.compile(r".*/\.git/objects/([0-9a-f]{2}/[0-9a-f]{38}|pack/pack-[0-9a-f]{40}\.(pack|idx))\Z")
IMPORT = """
set -e
git init -q --template= -b main {folder}
cd {folder}
git config user.name Operator
git config user.email operator@example.org
git fast-import --quiet --force
git read-tree main
git checkout-index -a -f
rm .git/index
git read-tree main
{afterwards}
rm -rf .git/logs
"""


@dataclass(frozen=True, slots=True)
class Commit:
    branch: str
    author: str
    message: str
    files: dict[str, str]
    parents: tuple["Commit", ...]
    number: int
    hash: str

    @property
    def signed(self) -> str:
        return signed(self.author, self.number)


@dataclass(slots=True)
class History:
    commits: list[Commit] = field(default_factory=list)

    def commit(self, branch: str, author: str, message: str, files: dict[str, str], *parents: Commit) -> Commit:
        number = len(self.commits)
        above = "".join(f"parent {parent.hash}\n" for parent in parents)
        who = f"author {signed(author, number)}\ncommitter {signed(author, number)}\n"
        hashed = object_hash("commit", f"tree {tree_hash(files)}\n{above}{who}\n{message}\n".encode())
        self.commits.append(Commit(branch, author, message, dict(files), parents, number, hashed))
        return self.commits[-1]

    def stream(self) -> str:
        """For `git fast-import`."""
        return "".join(self._piece(commit) for commit in self.commits)

    def _piece(self, commit: Commit) -> str:
        first, *others = [f":{parent.number + 1}" for parent in commit.parents] or [""]
        return "".join(
            [
                f"commit refs/heads/{commit.branch}\nmark :{commit.number + 1}\nauthor {commit.signed}\n",
                f"committer {commit.signed}\n",
                data(f"{commit.message}\n"),
                f"from {first}\n" if first else "",
                *(f"merge {other}\n" for other in others),
                "deleteall\n",
                *(f"M 100644 inline {path}\n{data(text)}\n" for path, text in sorted(commit.files.items())),
            ]
        )


def importing(folder: str, afterwards: str = "") -> str:
    """The script that makes the repository from a stream on its standard input."""
    return IMPORT.format(folder=folder, afterwards=afterwards)


def signed(author: str, number: int) -> str:
    return f"{author} <{address(author)}> {START + 3600 * number} +0000"


def data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def address(author: str) -> str:
    return f"{author.partition(' ')[0].lower()}@example.org"


def object_hash(kind: str, content: bytes) -> str:
    return sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()  # noqa: S324 - git's own choice


def tree_hash(files: dict[str, str]) -> str:
    """Of a tree of plain text files, folders included."""
    inside: dict[str, dict[str, str]] = {}
    entries: list[tuple[str, str, str]] = []
    for path, text in files.items():
        folder, slash, rest = path.partition("/")
        if slash:
            inside.setdefault(folder, {})[rest] = text
        else:
            entries.append((path, "100644", object_hash("blob", text.encode())))
    entries += [(f"{folder}/", "40000", tree_hash(below)) for folder, below in inside.items()]
    ordered = sorted(entries, key=lambda entry: entry[0].encode())
    return object_hash(
        "tree", b"".join(f"{mode} {name.rstrip('/')}\0".encode() + bytes.fromhex(hashed) for name, mode, hashed in ordered)
    )


def ref_hash(evidence: Evidence, folder: str, ref: str) -> str:
    """What a ref names in the repository that was left; empty if it is not there."""
    if evidence.exists(f"{folder}/.git/{ref}"):
        return evidence.read_text(f"{folder}/.git/{ref}").strip()
    if evidence.exists(f"{folder}/.git/packed-refs"):
        found = re.search(rf"^([0-9a-f]{{40}}) {re.escape(ref)}$", evidence.read_text(f"{folder}/.git/packed-refs"), re.MULTILINE)
        return found[1] if found else ""
    return ""


async def read_commit(evidence: Evidence, folder: str, hashed: str) -> tuple[str, list[str]]:
    """Tree and parents of a commit that was left. Git unpacks it in a grading sandbox; the hash tells if it is true."""
    objects = [path for path in evidence.list(f"{folder}/.git/objects") if OBJECT.match(path)]
    if not re.fullmatch("[0-9a-f]{40}", hashed) or not objects:
        return "", []
    async with evidence.grading_sandbox(*objects) as world:
        command = f"git init -q --bare --template= /tmp/bare && git -C /tmp/bare cat-file commit {hashed} | base64 -w0"
        done = await world.exec(command, env={"GIT_OBJECT_DIRECTORY": f"{folder}/.git/objects"})
    content = base64.b64decode(done.stdout)
    if object_hash("commit", content) != hashed:
        return "", []
    headers = [line.split(" ", 1) for line in content.decode(errors="replace").split("\n\n")[0].splitlines()]
    return headers[0][1], [value for name, value in headers if name == "parent"]


async def read_chain(evidence: Evidence, folder: str, base: str, tip: str) -> list[list[str]]:
    """Tree, author and first line of every commit from a base to a tip that was left, oldest first. Git checks every object."""
    objects = [path for path in evidence.list(f"{folder}/.git/objects") if OBJECT.match(path)]
    if not re.fullmatch("[0-9a-f]{40}", tip) or not objects:
        return []
    async with evidence.grading_sandbox(*objects) as world:
        command = (
            "git init -q --bare --template= /tmp/bare && cd /tmp/bare && git fsck --no-dangling --no-progress >/dev/null 2>&1"
            f" && git merge-base --is-ancestor {base} {tip} && git log --reverse --format='%T%x09%an%x09%s' {base}..{tip}"
        )
        done = await world.exec(command, env={"GIT_OBJECT_DIRECTORY": f"{folder}/.git/objects"})
    return [line.split("\t", 2) for line in done.stdout.splitlines()] if done.code == 0 else []
