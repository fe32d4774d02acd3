"""A repository's tests in a sandbox: what is told of a failure, from which issues are written."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.baseline import measure_baseline, run_all
from sandlot.interop.repositories.suite import RepositoryLayout, TestJob, open_suite, put_files
from sandlot.wiring.parts import open_backend
from worlds.repair import FILES, LEDGER, TESTS, copy_pytest

WORDS = "tests/test_sums.py::test_words"
WRONG = "tests/test_sums.py::test_is_wrong"
NOBODY = "tests/test_sums.py::TestSplit::test_nobody"


@pytest.fixture
async def suite(tmp_path):
    copy_pytest(tmp_path / "site")
    layout = RepositoryLayout(paths=("src",), modules=("src/ledger",), tests=("tests",))
    files = {name: text.encode() for name, text in FILES.items()}
    async with open_backend() as backend, open_suite(backend, files, (tmp_path / "site",), layout) as opened:
        yield opened


def line_of(text: str) -> int:
    return TESTS.splitlines().index(text) + 1


async def test_a_failure_has_its_message_its_line_in_the_test_and_its_depth(suite):
    broken = LEDGER.replace("word.lower()", "word.smaller()").replace('raise ValueError("nobody to share with")', "return []")
    job = TestJob(tests=[(WRONG, None), (WORDS, None), (NOBODY, None)], write={"src/ledger/sums.py": broken})
    [done] = await suite.run(job)
    wrong, words, nobody = done.reports
    assert wrong.said["message"].startswith("assert 1 == 2\n")
    assert (wrong.said["test_line"], wrong.said["depth"]) == (line_of("    assert total([1]) == 2"), 1)
    assert words.said["message"] == "AttributeError: 'str' object has no attribute 'smaller'"
    assert words.said["test_line"] == line_of('    assert words("A Tale of Two") == ["tale", "of", "two"]')
    assert words.said["depth"] > 1
    assert "DID NOT RAISE" in nobody.said["message"]
    assert nobody.said["test_line"] == line_of("        with pytest.raises(ValueError):")


async def test_a_test_that_catches_its_time_limit_is_still_late(suite):
    endless = LEDGER.replace(
        "    return [word",
        "    try:\n        while True:\n            pass\n    except BaseException:\n        raise ValueError\n    return [word",
    )
    job = TestJob(tests=[(WORDS, None), (WRONG, None)], write={"src/ledger/sums.py": endless}, stop_when_late=True)
    [done] = await suite.run(job, test_s=0.3)
    assert not done.finished
    assert not done.reports


async def test_a_conftest_that_cannot_be_imported_says_what_it_misses(suite):
    [done] = await suite.run(TestJob(write={"tests/conftest.py": "import no_such_library\n"}))
    assert not done.reports
    assert "No module named 'no_such_library'" in done.not_collected["conftest.py"]


async def test_a_repository_whose_tests_all_fail_says_why(suite):
    need = "import pytest\n\n@pytest.fixture(autouse=True)\ndef compiled():\n    assert False, 'the extension is not built'\n"
    texts = {"tests/test_sums.py": TESTS}
    files = {"tests/conftest.py": need.encode()}
    await put_files(suite.sandbox, files)
    with pytest.raises(ConfigError, match=r"only 0 of its tests can be used .*the extension is not built"):
        await measure_baseline(suite, await run_all(suite, ()), texts)


async def test_libraries_below_a_folder_that_only_its_owner_may_enter_are_found(tmp_path):
    home = tmp_path / "home"
    copy_pytest(home / "env" / "site")
    home.chmod(0o700)
    layout = RepositoryLayout(paths=("src",), modules=("src/ledger",), tests=("tests",), environ={"MODE": "plain"})
    test = "import os\ndef test_mode():\n    assert os.environ['MODE'] == 'plain'\n"
    files = {name: text.encode() for name, text in {**FILES, "tests/test_mode.py": test}.items()}
    async with open_backend() as backend, open_suite(backend, files, [home / "env" / "site"], layout) as suite:
        [done] = await suite.run(TestJob(tests=[("tests/test_mode.py::test_mode", None)]))
    assert done.outcomes() == {"tests/test_mode.py::test_mode": "passed"}
