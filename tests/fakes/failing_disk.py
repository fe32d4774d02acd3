"""Disks that fail or stop at a chosen operation: what a full disk and a dying process look like to the store."""

import os
import threading
from dataclasses import dataclass, field

from sandlot.core.disk import Disk


class StoppedError(Exception):
    """The process died here: nothing after this reaches the disk."""


@dataclass
class Countdown:
    """Lets `left` operations through and then fails every one, like a process that is gone or a disk that is full.

    The write at which it stops may leave `torn` bytes behind.
    """

    left: int
    error: Exception = field(default_factory=StoppedError)
    torn: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spend(self) -> int:
        with self._lock:
            self.left -= 1
            return self.left

    def over(self, operation):
        def run(*arguments):
            left = self.spend()
            if left < 0:
                if left == -1 and operation is os.write and self.torn:
                    os.write(arguments[0], arguments[1][: self.torn])
                raise self.error
            return operation(*arguments)

        return run

    @property
    def disk(self) -> Disk:
        return Disk(
            write=self.over(os.write),
            sync=self.over(os.fdatasync),
            rename=self.over(os.replace),
            remove=self.over(os.unlink),
            truncate=self.over(os.ftruncate),
        )
