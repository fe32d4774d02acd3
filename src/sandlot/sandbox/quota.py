"""The resource limits of one sandbox."""

import msgspec

from sandlot.core.errors import ConfigError

MIB = 1 << 20


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one sandbox, its agent included. Files it writes live in memory: they count in both `disk` and `memory`."""

    memory_bytes: int = 2048 * MIB
    """All processes and written files together; above it the kernel ends the largest process."""
    cpus: float = 1.0
    """Processor time per second of wall time."""
    pids: int = 512
    """Processes and threads at once."""
    disk_bytes: int = 1024 * MIB
    """Size of everything written on top of the image."""
    inodes: int = 200_000
    """Files, folders and links written on top of the image."""
    open_files: int = 1024
    """Open files of one process."""
    file_bytes: int = 256 * MIB
    """The largest file the host reads out."""
    listing_bytes: int = 64 * MIB
    """The longest listing the host reads out; further paths are only counted."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not 0 < value < 1 << 62:
                raise ConfigError(f"sandbox quota `{name}` is {value!r}; give a positive, finite number")
        if self.memory_bytes < self.disk_bytes + 32 * MIB:
            raise ConfigError(
                f"sandbox quota: {self.memory_bytes // MIB} MiB of memory for {self.disk_bytes // MIB} MiB of disk; "
                "written files are in memory, so give at least 32 MiB more memory than disk"
            )
        if self.open_files < 64 or self.pids < 4:
            raise ConfigError(f"sandbox quota: {self.open_files} open files, {self.pids} pids; a shell needs at least 64 and 4")
