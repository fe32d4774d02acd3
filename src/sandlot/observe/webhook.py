"""Posting JSON to an address, from a thread of its own: a receiver that is down, slow or hostile never delays the sender.

What waits is bounded, every attempt has a time limit, redirects are not followed, and of the answer only the status is read. What
could not be delivered is counted. Addresses may be secrets, so no message shows more than the host.
"""

import http.client
import threading
import time
from collections import deque
from urllib.parse import urlsplit

_MOST_WAITING = 100
_TIMEOUT_S = 5.0
_PAUSES_S = (0.0, 1.0, 4.0)
"""Before each attempt."""
END_S = 5.0
"""Longest wait at the end for what is not delivered yet."""


class Webhook:
    """Delivers bodies of JSON in order; `post` never waits."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url)
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._closed_s: float | None = None
        self._num_posted = self.num_delivered = 0
        self.problem: str | None = None
        """Why the last attempt failed."""
        self._thread = threading.Thread(target=self._work, name="sandlot-webhook", daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        """Where it goes, without what may be secret."""
        return self._place.hostname or ""

    @property
    def num_lost(self) -> int:
        """Bodies that were not delivered; before `close`, with those that wait."""
        return self._num_posted - self.num_delivered

    def post(self, body: bytes) -> None:
        """Deliver this soon; dropped if too much waits."""
        with self._changed:
            self._num_posted += 1
            if len(self._waiting) < _MOST_WAITING:
                self._waiting.append(body)
            self._changed.notify()

    def close(self) -> None:
        """Deliver what is left, for a limited time."""
        with self._changed:
            self._closed_s = time.monotonic()
            self._changed.notify()
        self._thread.join(END_S + 1)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed_s is not None)
                if not self._waiting:
                    return
                body = self._waiting.popleft()
            self._deliver(body)

    def _deliver(self, body: bytes) -> None:
        for pause_s in _PAUSES_S:
            with self._changed:
                self._changed.wait_for(lambda: self._closed_s is not None, timeout=pause_s)
            left_s = _TIMEOUT_S if self._closed_s is None else self._closed_s + END_S - time.monotonic()
            if left_s <= 0:
                return
            try:
                status = self._send(body, min(_TIMEOUT_S, left_s))
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.problem = type(error).__name__
                continue
            if 200 <= status < 300:
                self.num_delivered += 1
                return
            self.problem = f"HTTP {status}"
            if status < 500 and status != http.client.TOO_MANY_REQUESTS:
                return

    def _send(self, body: bytes, timeout_s: float) -> int:
        kind = http.client.HTTPSConnection if self._place.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.host, self._place.port, timeout=timeout_s)
        path = (self._place.path or "/") + (f"?{self._place.query}" if self._place.query else "")
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()
