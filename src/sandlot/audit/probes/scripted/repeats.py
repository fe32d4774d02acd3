"""What a trial left otherwise than golden, without what golden itself leaves otherwise each time.

Office programs write the time into the files they save, so no two plays leave the same bytes. Such files are archives: they are
compared part by part, and only parts that golden repeats count. A file that is no archive, or a field, that golden does not
repeat says nothing about another play.
"""

import io
import zipfile

from sandlot.audit.probes.likeness import MISSING, changes_between
from sandlot.audit.subject import Trial

_FILES = "files."


def real_changes(golden: Trial, again: Trial, trial: Trial) -> set[str]:
    """Places that differ from golden and that golden, played again, left the same."""
    unsteady = changes_between(golden, again, timeless=True) if again.reward is not None else {}
    changed = changes_between(golden, trial, timeless=True)
    return {
        place
        for place, left in changed.items()
        if place not in unsteady
        or (left == MISSING) != (unsteady[place] == MISSING)  # however unsteady, golden leaves it
        or _parts_differ(place, golden, again, trial)
    }


def _parts_differ(place: str, golden: Trial, again: Trial, trial: Trial) -> bool:
    if not place.startswith(_FILES):
        return False
    path = place.removeprefix(_FILES)
    first, second, other = (_parts(each, path) for each in (golden, again, trial))
    if not first or not second:
        return False
    steady = {name: part for name, part in first.items() if second.get(name) == part}
    return any(other.get(name) != part for name, part in steady.items()) or not {*other} <= {*first, *second}


def _parts(trial: Trial, path: str) -> dict[str, int]:
    """The parts of an archive that the trial left, with their check sums; empty if it is none."""
    record = trial.evidence.files.get(path)
    data = trial.files.get(record.blob or "") if record is not None else None
    if data is None:
        return {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {part.filename: part.CRC for part in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return {}
