"""The files that setup left in a sandbox, recorded before the agent acts. `Evidence.diff` compares with them.

Freezing the sandbox would end the processes that setup started, so the files are listed while they run. If setup only wrote
files, their hashes are known; if it ran a command, every file is read for its hash.
"""

from collections.abc import Mapping

from sandlot.core.errors import SandboxError, boundary
from sandlot.core.ports.sandbox import Sandbox
from sandlot.core.trace import FileRecord
from sandlot.core.types import digest
from sandlot.grade.gather import PER_FILE_SHARE, SmallFiles, run_in_batches


async def record_initial_files(
    sandbox: Sandbox, written: Mapping[str, FileRecord] | None, cap_bytes: int, small: SmallFiles
) -> dict[str, FileRecord]:
    """Record every file that is not the image's, by path. `written`: the files written, if setup did nothing but write.

    Files that are read anyway are added to `small`.
    """
    with boundary(SandboxError, "listing the files that setup left"):
        sizes = await sandbox.changed()
    known: Mapping[str, FileRecord] = written if written is not None and written.keys() <= sizes.keys() else {}
    files = {path: FileRecord(size=size, blob=None) for path, size in sizes.items()}
    unread: list[tuple[str, int]] = []
    left = cap_bytes
    for path, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if path in known and known[path].size == size:
            files[path] = known[path]
        elif size <= min(left, cap_bytes // PER_FILE_SHARE):
            left -= size
            unread.append((path, size))

    async def read(path: str, _size: int) -> None:
        with boundary(SandboxError, f"reading `{path}`, a file that setup left"):
            try:
                data = await sandbox.read(path)
            except FileNotFoundError:  # a process that setup started may have removed it
                del files[path]
                return
        files[path] = FileRecord(size=len(data), blob=digest(data))
        small.add(path, data)

    await run_in_batches(unread, read)
    return dict(sorted(files.items()))
