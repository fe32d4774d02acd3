"""The suites that every implementation of a port passes, yours too, and parts for tests. Needs `pip install 'sandlot[testing]'`.

A suite is a module of test functions. A test file of your own package imports it and says what is to be tested:

```python
import pytest

from my_package import MyExporter
from sandlot.testing.exporter import *


@pytest.fixture
def exporter():
    return MyExporter()
```

`pytest` then runs the suite, without any configuration. The docstring of a suite names the fixtures that it takes; its own can be
replaced below the import. docs/guides/own-parts.md has whole examples.

Suites, each for the ports of that name in `sandlot.ports`:

- `sandbox`: backends and their sandboxes
- `files`, `blobs`: files by path, bytes by hash
- `judge`: judges
- `exporter`: exporters of environments
- `policies`, `chat_model`, `token_model`: models, as those who take turns, as text in and out, and as token ids in and out
- `harness`: agent loops
- `tool`: what an agent can call
- `tracker`: who receives the figures of a training

Parts for your own tests:

- `fakes`: `ScriptedChat` and `FixedJudge`, honest parts that say what they are told to
- `local`: `LocalBackend`, a sandbox backend on plain processes, which isolates nothing
- `records`: `make_trace` and `make_evidence`, records of rollouts that never happened
"""

try:
    import pytest
except ImportError as error:
    raise ImportError(
        f"`sandlot.testing` needs pytest, which cannot be imported ({error}); install it: pip install 'sandlot[testing]'"
    ) from error

_SUITES = (
    "blobs",
    "chat_model",
    "exporter",
    "files",
    "harness",
    "judge",
    "policies",
    "sandbox",
    "token_model",
    "tool",
    "tracker",
)
# A failed `assert` of a suite shows the values, as it does in a test file.
pytest.register_assert_rewrite(*(f"{__name__}.{suite}" for suite in _SUITES))
