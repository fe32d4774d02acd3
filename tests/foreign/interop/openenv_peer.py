"""The Python that has openenv-core, and servers that it starts."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

THEIRS = os.environ["OPENENV_PYTHON"]


@contextmanager
def served(*command, cwd=None, python=THEIRS):
    """The address of a server that a command of their Python starts; the port is its last word."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([python, *command, str(port)], cwd=cwd)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.2)
        yield url
    finally:
        server.kill()
        server.wait()


def python_with(folder, *others):
    """A Python of its own that also has the packages of others, and the folder of its own packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    places = [subprocess.run([other, "-c", ask], capture_output=True, text=True, check=True).stdout for other in others]
    (packages / "others.pth").write_text("".join(places))
    return str(folder / "bin" / "python"), packages
