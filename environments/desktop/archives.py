"""Jobs with archives and the terminal: take files out of a zip, make a list of checksums."""

import hashlib
import io
import zipfile
from random import Random
from typing import Any

from .hands import Hands
from .job import DOCUMENTS, TOWNS, Family, Job, background, text_is, town_of


def packed(members: dict[str, str]) -> bytes:
    """A zip archive with the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 5, 9, 0, 0)), text)
    return buffer.getvalue()


# -- take some files out -----------------------------------------------------------------------------------------------


def make_extract(rng: Random, level: int) -> Job:
    members = {f"{town.lower()}.txt": f"{town}: {rng.randrange(100, 999)} people\n" for town in rng.sample(TOWNS, 6)}
    chosen = sorted(rng.sample(sorted(members), level))
    target = f"{DOCUMENTS}/towns"
    files: dict[str, str | bytes] = {**background(rng), f"{DOCUMENTS}/archive/towns.zip": packed(members)}
    files[f"{target}/list.txt"] = "The towns of this year.\n"
    old = ""
    if level > 1:
        files[f"{target}/{chosen[0]}"] = "an old version\n"
        old = f" {chosen[0]} is there already in an old version, which is to be overwritten."
    return Job(
        prompt=f"Extract {' and '.join(chosen)} from Documents/archive/towns.zip into Documents/towns, and nothing else.{old}",
        files=files,
        wants=[text_is(f"{target}/{name}", members[name]) for name in chosen],
        plan={"archive": f"{DOCUMENTS}/archive/towns.zip", "names": chosen, "target": target, "overwrite": level > 1},
    )


async def play_extract(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("archives", plan["archive"], "towns.zip")
    for number, name in enumerate(plan["names"]):
        ref = await hands.find("cell", name)
        await hands.do("click", element=ref, modifiers=["ctrl"] if number else [])
    await hands.click("button", "Extract", after="tool bar")
    await hands.wait("Extract files")
    await hands.click("text", "", after="Extract to:")
    await hands.fill(plan["target"])
    if plan["overwrite"]:
        await hands.click("check box", "Overwrite existing files")
    await hands.click("button", "Extract", after='dialog "Extract files"')
    await hands.wait_closed("Extract files")
    await hands.do("wait", seconds=1)


# -- a list of checksums, in the terminal ------------------------------------------------------------------------------


def make_sums(rng: Random, level: int) -> Job:
    town = town_of(rng, level)
    folder = f"{DOCUMENTS}/{town}/release"
    names = [f"part{number}.dat" for number in range(1, level + 3)]
    files: dict[str, str | bytes] = dict(background(rng))
    files |= {f"{folder}/{name}": f"{name} {rng.getrandbits(64):016x}\n" * 3 for name in names}
    files[f"{folder}/notes.txt"] = "Only the parts are delivered.\n"
    files[f"{DOCUMENTS}/release/part1.dat"] = "old\n"
    lines = [f"{hashlib.sha256(str(files[f'{folder}/{name}']).encode()).hexdigest()}  {name}" for name in names]
    if level > 2:
        lines.sort()
    return Job(
        prompt=f"In Documents/{town}/release, make the file SHA256SUMS with the checksums of the .dat files there, as sha256sum"
        f" writes them, with file names only{', sorted by checksum' if level > 2 else ', sorted by file name'}.",
        files=files,
        wants=[text_is(f"{folder}/SHA256SUMS", "\n".join(lines))],
        plan={"command": f"cd {folder} && sha256sum *.dat {'| sort ' if level > 2 else ''}> SHA256SUMS"},
    )


async def play_sums(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("terminal")
    await hands.type(plan["command"] + "\n")
    await hands.do("wait", seconds=1)


FAMILIES = {
    "extract-files": Family(make_extract, play_extract),
    "make-checksums": Family(make_sums, play_sums),
}
