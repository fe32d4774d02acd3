"""Servers of the built-in engine for tests: real processes that can be killed and started again."""

import subprocess
import sys
import urllib.request

from drive.ports import free_port


class ModelServer:
    """`sandlot serve` of a model, on a port of its own, which it has again when it is started again."""

    def __init__(self, *words: str, model: str = "rookie") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._words = ["serve", "--model", model, "--port", str(self.port), "--kv-gib", "0.1", "--until-eof", *words]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sandlot", *self._words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait(self) -> None:
        """Until it listens."""
        assert self.url in self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        with self.process:
            self.process.stdin.close()

    def gauge(self, name: str) -> float:
        """A number of its engine."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"sandlot_engine_{name} "))
