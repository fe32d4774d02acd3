"""More git work: tidy a branch before it is shown, carry fixes to a release, find what was leaked."""

from random import Random

from .history import SITE, page
from .job import PEOPLE, WORDS, Job, lines, token
from .repository import Commit, History, importing, tree_hash

TIDY = """In the repository {folder} the branch `{branch}` is to be tidied before it is shown to others (`git rebase -i`
needs an editor; the tool `terminal` has a terminal). It starts from main, and afterwards has exactly these commits on top
of main, oldest first:

{wanted}

A commit `fixup! X` belongs to the commit with the message X, wherever it stands. The commit `{dropped}` goes, with its
change. Authors stay as they were (of a commit that was joined with others, the author of the first). Main stays where it
is."""
BACKPORT = """The release branch `release/{version}` of the repository {folder} needs some fixes that are on main. Carry
over every commit of main that is not on the release branch and has the line `Backport: {version}` in its message, oldest
first, each as a commit of its own with the same message and author. One of them does not apply cleanly, because CHANGES
differs: there, keep the lines that the release branch has and add the line of the fix at the end. Leave main as it is."""
LEAK = """A key was committed to the repository {folder}: the line `api_key = {prefix}...` in some file, perhaps no longer
in any branch's tip. Write /out/leak.json, one object: `introduced` (hash of the oldest commit, over all branches, that has
it), `removed` (hash of the commit on main whose parent has it and that does not, or null if main still has it), `author`
(name of the author who introduced it), `branches` (names of the branches whose newest commit still has it, sorted). Change
nothing in the repository."""


def tidied_branch(rng: Random) -> Job:
    history = History()
    base_files = {"index.html": page(rng), "notes/start.txt": page(rng)}
    root = history.commit("main", PEOPLE[0], "Begin", base_files)
    main = history.commit("main", rng.choice(PEOPLE), "Write the start page", base_files | {"about.html": page(rng)}, root)
    base_files["about.html"] = main.files["about.html"]
    branch = f"topic/{rng.choice(WORDS)}"
    words = rng.sample(WORDS, 6)
    titles = [f"Add {words[0]}", f"Add {words[1]}", f"Add {words[2]}"]
    dropped = f"Try {words[3]}"
    paths = {title: f"pages/{word}.html" for title, word in zip(titles, words, strict=False)}
    steps: list[tuple[str, dict[str, str]]] = [(title, {paths[title]: page(rng)}) for title in titles]
    steps.insert(rng.randrange(1, 3), (dropped, {f"try/{words[3]}.txt": page(rng)}))
    steps += [(f"fixup! {title}", {paths[title]: page(rng)}) for title in rng.sample(titles, 2)]
    late = (f"fixup! {titles[0]}", {f"pages/{words[4]}.html": page(rng)})
    steps.append(late)
    files, tip = dict(base_files), main
    authors: dict[str, str] = {}
    for message, change in steps:
        files |= change
        author = rng.choice(PEOPLE)
        authors.setdefault(message, author)
        tip = history.commit(branch, author, message, files, tip)
    renamed = {titles[1]: f"Add {words[1]} and {words[5]}"}
    chain, now = [], dict(base_files)
    for title in titles:
        for message, change in steps:
            if message in {title, f"fixup! {title}"}:
                now |= change
        chain.append([tree_hash(now), authors[title], renamed.get(title, title)])
    told = lines(
        [f"- `{renamed.get(title, title)}`" + (f" (until now `{title}`)" if title in renamed else "") for title in titles]
    )
    todo = f"""cd {SITE} && git checkout -q {branch} && cat > /tmp/editor <<'END'
#!/bin/sh
sed -i -e '/ {dropped}$/d' -e 's/^pick \\(.* {titles[1]}\\)$/reword \\1/' "$1"
END
cat > /tmp/message <<'END'
#!/bin/sh
printf '%s\\n' '{renamed[titles[1]]}' > "$1"
END
chmod 755 /tmp/editor /tmp/message; git config user.name Ops; git config user.email ops@example.org"""
    return Job(
        prompt=TIDY.format(folder=SITE, branch=branch, wanted=told.rstrip(), dropped=dropped),
        script=importing(SITE),
        stdin=history.stream(),
        wants=[chain_want(f"refs/heads/{branch}", main, chain)],
        refs={"refs/heads/main": main.hash},
        solution=[
            todo,
            f"cd {SITE} && GIT_SEQUENCE_EDITOR=/tmp/editor GIT_EDITOR=/tmp/message git rebase -q -i --autosquash main",
            f"git -C {SITE} log --oneline",
        ],
    )


def chain_want(ref: str, base: Commit, chain: list[list[str]]) -> dict[str, object]:
    return {"kind": "chain", "name": ref, "repository": SITE, "ref": ref, "base": base.hash, "value": chain}


def backported_fixes(rng: Random) -> Job:
    history, version = History(), f"{rng.randrange(1, 9)}.{rng.randrange(20)}"
    files = {"CHANGES": "Begin\n", "src/base.txt": page(rng)}
    root = history.commit("main", PEOPLE[0], "Begin", files)
    own = files | {"CHANGES": f"Begin\nRelease {version}\n", "VERSION": f"{version}\n"}
    release = history.commit(f"release/{version}", PEOPLE[1], f"Release {version}", own, root)
    tip, chain, carried = root, [], []
    conflicting = rng.randrange(3)
    wanted_left, count = 3, 0
    while wanted_left:
        word, author = rng.choice(WORDS), rng.choice(PEOPLE)
        change = {f"src/{word}-{count}.txt": page(rng)}
        is_fix = rng.random() < 0.5
        message = f"{'Fix' if is_fix else 'Add'} {word} {count}"
        if is_fix:
            message += f"\n\nBackport: {version if rng.random() < 0.8 else '0.' + version}"
        fix = is_fix and message.endswith(f"Backport: {version}")
        row = f"{message.splitlines()[0]}\n"
        if not fix or len(carried) == conflicting:
            change["CHANGES"] = files["CHANGES"] + row
        files |= change
        tip = history.commit("main", author, message, files, tip)
        if fix:
            carried.append(tip)
            wanted_left -= 1
            own = own | {path: text for path, text in change.items() if path != "CHANGES"}
            if "CHANGES" in change:
                own["CHANGES"] += row
            chain.append([tree_hash(own), author, message.splitlines()[0]])
        count += 1
    log = f"git log --reverse --format=%H --grep='^Backport: {version}$' release/{version}..main"
    return Job(
        prompt=BACKPORT.format(folder=SITE, version=version),
        script=importing(SITE),
        stdin=history.stream(),
        wants=[chain_want(f"refs/heads/release/{version}", release, chain)],
        refs={"refs/heads/main": tip.hash},
        solution=[
            f"cd {SITE} && git config user.name Ops && git config user.email o@example.org && git checkout -q release/{version}",
            f"""cd {SITE} && for c in $({log}); do git cherry-pick $c >/dev/null 2>&1 || {{
git show HEAD:CHANGES > CHANGES; git log -1 --format=%s $c >> CHANGES; git add CHANGES
git -c core.editor=true cherry-pick --continue >/dev/null; }}; done; git log --oneline | head -5; cat CHANGES""",
        ],
    )


def leaked_key(rng: Random) -> Job:
    history, prefix = History(), token(rng, 4)
    key = f"api_key = {prefix}{token(rng, 16)}\n"
    files, tip = {"README": page(rng), "conf/app.ini": "debug = no\n"}, ()
    tips: dict[str, Commit] = {}
    count, first = rng.randrange(12, 18), rng.randrange(3, 6)
    last = rng.randrange(first + 3, count - 1)
    place = f"conf/{rng.choice(WORDS)}.ini"
    where = {number: f"{rng.choice(WORDS)}-{number}" for number in rng.sample(range(1, count), 4)}
    found: dict[str, Commit] = {}
    for number in range(count):
        files = files | {f"notes/{number}.txt": page(rng)}
        if number == first:
            files = files | {place: f"name = {rng.choice(WORDS)}\n{key}"}
        if number == last:
            files = files | {place: "name = changed\n"}
        commit = history.commit("main", rng.choice(PEOPLE), f"Work on {rng.choice(WORDS)} {number}", files, *tip)
        found |= {"in": commit} if number == first else {"out": commit} if number == last else {}
        tip = (commit,)
        tips["main"] = commit
        if number in where:
            extra = files | {f"side/{number}.txt": page(rng)}
            tips[where[number]] = history.commit(where[number], rng.choice(PEOPLE), f"Side work {number}", extra, commit)
    value = {
        "introduced": found["in"].hash,
        "removed": found["out"].hash,
        "author": found["in"].author,
        "branches": sorted(name for name, commit in tips.items() if any(key in text for text in commit.files.values())),
    }
    solution = f"""mkdir -p /out; cd {SITE}; first=$(git log --all --reverse --format=%H -G'^api_key = {prefix}' | head -1)
has() {{ git grep -q '^api_key = {prefix}' "$1" 2>/dev/null; }}
for c in $(git rev-list --reverse $first..main); do has $c || {{ gone=$c; break; }}; done
b=$(for n in $(git for-each-ref --format='%(refname:short)' refs/heads | LC_ALL=C sort); do has $n && echo $n; done)
python3 - "$first" "$gone" "$(git log -1 --format=%an $first)" $b <<'END'
import json, sys
found = dict(zip(("introduced", "removed", "author"), sys.argv[1:4]), branches=sys.argv[4:])
json.dump(found, open("/out/leak.json", "w"))
END
cat /out/leak.json"""
    return Job(
        prompt=LEAK.format(folder=SITE, prefix=prefix),
        script=importing(SITE),
        stdin=history.stream(),
        wants=[{"kind": "json", "path": "/out/leak.json", "value": value}],
        refs={f"refs/heads/{name}": commit.hash for name, commit in tips.items()},
        solution=[solution],
    )
