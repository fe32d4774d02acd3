"""Whether a process runs."""

from pathlib import Path


def is_running(pid: int) -> bool:
    """False also for one that has ended, but whose parent, which may be a slow process 1, has not waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
