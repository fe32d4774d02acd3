"""Git work: bring back a lost branch, find the commit that broke something, merge what conflicts."""

from random import Random

from .job import PEOPLE, WORDS, Job, lines, token
from .repository import Commit, History, address, importing, tree_hash

SITE = "/work/site"
LOST = """In the repository {folder} somebody deleted a branch that was never merged; the messages of its commits end in
`({ticket})`. Nothing has been garbage-collected. Make the branch again under the name `{branch}`, with all its commits exactly as
they were, and leave every other branch as it is. Write the hashes of the commits that are on it and not on main to
/out/commits.txt, oldest first."""
CULPRIT = """The repository {folder} has a check, `sh check.sh`, that passes on the oldest commit of main and fails on the newest.
Once broken it stayed broken. Write one line to /out/culprit.txt: the full hash of the first commit on main for which it fails,
a blank, and the email address of its author. Leave main where it is."""
MERGE = """In the repository {folder} the branch `{branch}` changes {file}, and so did main meanwhile. Merge `{branch}` into main
with a merge commit (main first, `{branch}` second) that has:

- every setting of both sides, in the order main has them, with settings only `{branch}` has at the end in its order;
- where both sides have a setting with different values, the larger number;
- all other files as a merge without conflicts gives them.

Settings are lines `name = number`."""


def lost_branch(rng: Random) -> Job:
    history, files = History(), {"index.html": page(rng), "style/main.css": "body { margin: 0 }\n"}
    tip: tuple[Commit, ...] = ()
    for _ in range(rng.randrange(4, 8)):
        files |= {f"pages/{rng.choice(WORDS)}.html": page(rng)}
        tip = (history.commit("main", rng.choice(PEOPLE), f"Write about {rng.choice(WORDS)}", files, *tip),)
    tickets = rng.sample(range(1000, 9999), 3)
    lost: list[list[Commit]] = []
    for ticket in tickets:
        own, branch_commits = dict(files), [tip[0]]
        for step in range(rng.randrange(2, 6)):
            own[f"drafts/{rng.choice(WORDS)}.html"] = page(rng)
            message = f"Draft {rng.choice(WORDS)}, part {step + 1} (T-{ticket})"
            branch_commits.append(history.commit(f"draft-{ticket}", rng.choice(PEOPLE), message, own, branch_commits[-1]))
        lost.append(branch_commits[1:])
    kept = history.commit("next", rng.choice(PEOPLE), "Try a new look", files | {"style/next.css": page(rng)}, tip[0])
    branch = f"drafts/{rng.choice(WORDS)}"
    deleted = "\n".join(f"git update-ref -d refs/heads/draft-{ticket}" for ticket in tickets)
    return Job(
        prompt=LOST.format(folder=SITE, ticket=f"T-{tickets[0]}", branch=branch),
        script=importing(SITE, deleted),
        stdin=history.stream(),
        wants=[
            {"kind": "ref", "repository": SITE, "ref": f"refs/heads/{branch}", "hash": lost[0][-1].hash},
            {"kind": "text", "path": "/out/commits.txt", "value": lines([commit.hash for commit in lost[0]])},
        ],
        refs={"refs/heads/main": tip[0].hash, "refs/heads/next": kept.hash},
        solution=[
            f"cd {SITE} && git fsck --no-reflogs --lost-found",
            f"cd {SITE} && for c in $(ls .git/lost-found/commit); do git log -1 --format='%H %s' $c; done | tee /tmp/lost",
            f"git -C {SITE} branch {branch} $(grep '(T-{tickets[0]})' /tmp/lost | cut -d' ' -f1)",
            f"mkdir -p /out && git -C {SITE} rev-list --reverse main..{branch} > /out/commits.txt",
        ],
    )


def first_bad_commit(rng: Random) -> Job:
    names = rng.sample(WORDS, 8)
    limits = {name: rng.randrange(10, 60) for name in names}
    most = sum(limits.values()) + 100
    check = f"total=$(cat limits/*.txt | awk '{{ sum += $1 }} END {{ print sum }}')\n[ \"$total\" -le {most} ]\n"
    history, tip = History(), ()
    count = rng.randrange(28, 45)
    broken = rng.randrange(6, count - 6)
    culprit: Commit | None = None
    for number in range(count):
        name = rng.choice(names)
        if number == broken:
            limits[name] += most - sum(limits.values()) + rng.randrange(1, 40)
        elif number and rng.random() < 0.7:
            low = 0 if number < broken else max(0, limits[name] + most + 1 - sum(limits.values()))
            high = max(low + 1, limits[name] + 20) if number > broken else limits[name] + most - sum(limits.values())
            limits[name] = rng.randrange(low, max(low + 1, min(high, limits[name] + 15)))
        files = {f"limits/{each}.txt": f"{value}\n" for each, value in limits.items()}
        files |= {"check.sh": check, "NOTES": f"{rng.choice(WORDS)} {number}\n"}
        message = rng.choice(["Tune {0}", "Lower {0}", "Adjust {0} after review", "Notes on {0}"]).format(name)
        commit = history.commit("main", rng.choice(PEOPLE), message, files, *tip)
        culprit = commit if number == broken else culprit
        tip = (commit,)
        assert (sum(limits.values()) > most) == (number >= broken)
    assert culprit is not None
    return Job(
        prompt=CULPRIT.format(folder=SITE),
        script=importing(SITE),
        stdin=history.stream(),
        wants=[{"kind": "text", "path": "/out/culprit.txt", "value": f"{culprit.hash} {address(culprit.author)}"}],
        refs={"refs/heads/main": tip[0].hash},
        solution=[
            f"cd {SITE} && git bisect start main $(git rev-list --max-parents=0 main) && git bisect run sh check.sh | tail -3",
            f"mkdir -p /out && cd {SITE} && git log -1 --format='%H %ae' refs/bisect/bad > /out/culprit.txt && git bisect reset",
        ],
    )


def conflicting_settings(rng: Random) -> Job:
    names = rng.sample(WORDS, 12)
    base = {name: rng.randrange(100) for name in names[:8]}
    ours, theirs = changed(rng, base, names[8:10]), changed(rng, base, names[10:])
    branch, file = f"topic/{token(rng, 4)}", f"conf/{rng.choice(WORDS)}.ini"
    start = {file: settings(base), "README": page(rng), "notes/old.txt": page(rng)}
    history = History()
    root = history.commit("main", PEOPLE[0], "Begin", start)
    main_files = start | {file: settings(ours), "notes/main.txt": page(rng)}
    topic_files = start | {file: settings(theirs), "notes/topic.txt": page(rng)}
    topic = history.commit(branch, rng.choice(PEOPLE), "Change settings", topic_files, root)
    main = history.commit("main", rng.choice(PEOPLE), "Change other settings", main_files, root)
    merged = {name: max(value, theirs.get(name, value)) for name, value in ours.items()}
    merged |= {name: value for name, value in theirs.items() if name not in merged}
    result = main_files | topic_files | {file: settings(merged)}
    join = (
        f"cd {SITE} && git show main:{file} > /tmp/ours && git show {branch}:{file} > /tmp/theirs && awk '"
        "{ if (!($1 in value)) { order[++count] = $1; value[$1] = $3 } else if ($3 > value[$1]) value[$1] = $3 }"
        f' END {{ for (i = 1; i <= count; i++) print order[i] " = " value[order[i]] }}\' /tmp/ours /tmp/theirs > {file}'
    )
    return Job(
        prompt=MERGE.format(folder=SITE, branch=branch, file=file),
        script=importing(SITE),
        stdin=history.stream(),
        wants=[
            {
                "kind": "merge",
                "repository": SITE,
                "ref": "refs/heads/main",
                "tree": tree_hash(result),
                "parents": [main.hash, topic.hash],
            }
        ],
        refs={f"refs/heads/{branch}": topic.hash},
        solution=[
            f"cd {SITE} && git merge --no-ff --no-commit {branch}",
            join,
            f"cd {SITE} && git add -A && git commit -q -m 'Merge {branch}' && git log --graph --oneline",
        ],
    )


def changed(rng: Random, base: dict[str, int], new: list[str]) -> dict[str, int]:
    values = {name: rng.randrange(200) if rng.random() < 0.6 else value for name, value in base.items()}
    return values | {name: rng.randrange(200) for name in new}


def settings(values: dict[str, int]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def page(rng: Random) -> str:
    return f"<p>{' '.join(rng.choices(WORDS, k=12))}</p>\n"
