"""Checks of the files that the agent left. Links are never followed: a link is not a file."""

import hashlib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from sandlot.checks.found import Said, shown
from sandlot.core.errors import NotInEvidence
from sandlot.core.ports.grading import Evidence, absolute_path

_MOST_NAMED = 5
"""Paths that a reason lists."""


def file_exists(evidence: Evidence, path: str) -> Said:
    """There is a regular file at `path`; a folder or a link does not count.

    >>> file_exists(evidence, "/out/note.txt")
    (True, '`/out/note.txt` exists')
    """
    return evidence.exists(path), _found(evidence, path)


def file_absent(evidence: Evidence, path: str) -> Said:
    """There is nothing at `path`: no file, folder, link or anything else, and no link above it.

    >>> file_absent(evidence, "/out/draft.txt")
    (True, '`/out/draft.txt` does not exist')
    """
    return evidence.kind(path) is None, _found(evidence, path)


def file_equals(evidence: Evidence, path: str, text: str, *, strip: bool = True) -> Said:
    r"""The file's text is `text`; white space around both is ignored unless `strip` is false.

    >>> file_equals(evidence, "/out/note.txt", "Paid in full.")
    (True, "`/out/note.txt` holds 'Paid in full.\\n'")
    """
    found = evidence.read_text(path)
    return (found.strip() == text.strip() if strip else found == text), f"`{path}` holds {shown(found)}"


def file_contains(evidence: Evidence, path: str, text: str, *, ignore_case: bool = False) -> Said:
    """The file's text contains `text`. A file with every possible text contains it too: prefer `file_equals`.

    >>> file_contains(evidence, "/out/note.txt", "paid", ignore_case=True)
    (True, "`/out/note.txt` has 'paid'")
    """
    found = evidence.read_text(path)
    inside = text.casefold() in found.casefold() if ignore_case else text in found
    return inside, f"`{path}` {'has' if inside else 'has no'} {shown(text)}"


def file_size(evidence: Evidence, path: str, *, at_least: int = 1, at_most: int | None = None) -> Said:
    """The file has this many bytes. Combine it with a check of the content: size alone says little.

    >>> file_size(evidence, "/out/note.txt", at_most=100)
    (True, '`/out/note.txt` has 14 bytes')
    """
    size = len(evidence.read(path))
    return at_least <= size and (at_most is None or size <= at_most), f"`{path}` has {size:,} bytes"


def file_hash(evidence: Evidence, path: str, sha256: str) -> Said:
    """The file has exactly these bytes, named by their SHA-256.

    >>> file_hash(evidence, "/out/note.txt", "4a44dc15364204a80fe80e9039455cc1")[0]
    False
    """
    found = hashlib.sha256(evidence.read(path)).hexdigest()
    return found == sha256.strip().lower(), f"the SHA-256 of `{path}` is {found}"


def tree_equals(evidence: Evidence, folder: str, files: Mapping[str, str], *, ignore: Sequence[str] = ()) -> Said:
    """Below `folder` are exactly these files: relative path -> text, or `sha256:...` for bytes. Nothing else may be there.

    `ignore` are patterns of relative paths (`*.log`, `cache/*`) that are not looked at. A link counts as something else.

    >>> tree_equals(evidence, "/out/site", {"index.html": "<p>Hello</p>", "css/main.css": "p {}"})
    (True, '2 files below `/out/site` are as expected')
    """
    start = absolute_path(folder).rstrip("/") + "/"
    there = {path.removeprefix(start) for path in evidence.list(folder)}
    there |= {
        path.removeprefix(start) for path, kind in evidence.record.kinds.items() if path.startswith(start) and kind != "folder"
    }
    there = {path for path in there if not any(fnmatchcase(path, pattern) for pattern in ignore)}
    wrong = [f"`{path}` is not expected" for path in sorted(there - files.keys())]
    wrong += [f"`{path}` is missing" for path in sorted(files.keys() - there)]
    wrong += [f"`{path}` differs" for path in sorted(files.keys() & there) if not _has(evidence, start + path, files[path])]
    if wrong:
        return False, _named(wrong)
    return True, f"{len(files)} files below `{absolute_path(folder)}` are as expected"


def only_changed(evidence: Evidence, paths: Sequence[str]) -> Said:
    """No file changed since setup but those that match `paths` (patterns such as `/out/*`), and at least one of them did.

    >>> only_changed(evidence, ["/out/*"])[0]
    True
    """
    if not evidence.record.initial:
        raise NotInEvidence("the files from setup were not recorded, so changes are not known")
    changed = sorted(evidence.diff())
    stray = [path for path in changed if not any(fnmatchcase(path, pattern) for pattern in paths)]
    if stray:
        return False, "also changed: " + _named(stray)
    return bool(changed), f"changed: {_named(changed) or 'nothing'}"


def unchanged(evidence: Evidence, path: str) -> Said:
    """The file is unchanged since setup.

    >>> unchanged(evidence, "/data/orders.csv")
    (True, '`/data/orders.csv` is unchanged')
    """
    if not evidence.record.initial:
        raise NotInEvidence("the files from setup were not recorded, so changes are not known")
    whole = absolute_path(path)
    changes = evidence.diff()
    if whole not in changes:
        return evidence.exists(whole), f"`{whole}` {'is unchanged' if evidence.exists(whole) else 'was never there'}"
    before, after = changes[whole]
    return False, f"`{whole}` was {'added' if before is None else 'removed' if after is None else 'changed'}"


def _has(evidence: Evidence, path: str, expected: str) -> bool:
    if not evidence.exists(path):
        return False
    data = evidence.read(path)
    if expected.startswith("sha256:"):
        return hashlib.sha256(data).hexdigest() == expected.removeprefix("sha256:").lower()
    return data.strip() == expected.encode().strip()


def _named(lines: Sequence[str]) -> str:
    more = len(lines) - _MOST_NAMED
    return ", ".join(lines[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _found(evidence: Evidence, path: str) -> str:
    kind = evidence.kind(path)
    what = {None: "does not exist", "file": "exists", "folder": "is a folder", "link": "is a link, or below one"}
    return f"`{path}` {what.get(kind, 'exists, but is not a regular file')}"
