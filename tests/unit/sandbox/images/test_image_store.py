"""The store of images: images are complete or absent, one process builds at a time, and images in use are not removed."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from sandlot.core.concurrency.clock import Clock
from sandlot.core.errors import SandboxError
from sandlot.sandbox.images.store import ImageAbout, Lease, hold, images_folder, keep, list_images, remove_unused_images


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def filled(text: str = "x", digest: str = "sha256:1"):
    def fill(lease: Lease) -> ImageAbout:
        (lease.root / "file").write_text(text)
        return ImageAbout(kind="archive", name="box", digest=digest)

    return fill


def names() -> list[str]:
    return sorted(path.name for path in images_folder().iterdir() if not path.name.startswith(".making-"))


def test_an_image_is_made_once_and_found_again():
    first = keep("a", filled("one"))
    assert keep("a", filled("two")).root == first.root
    assert (first.root / "file").read_text() == "one"
    (item,) = list_images()
    assert (item.key, item.about.digest, item.about.num_files) == ("a", "sha256:1", 1)
    assert item.about.size_bytes > 0
    assert first.about() == item.about


def test_what_fails_halfway_leaves_nothing():
    def fail(lease: Lease) -> ImageAbout:
        (lease.root / "half").mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep("a", fail)
    assert names() == []
    assert hold("a") is None
    keep("a", filled())
    assert names() == ["a"]


def test_a_cache_that_cannot_be_written_is_an_error_with_the_fix(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SandboxError, match="set XDG_CACHE_HOME"):
        keep("a", filled())


def test_what_is_held_stays_until_it_is_let_go():
    lease = keep("a", filled())
    assert remove_unused_images() == []
    lease.release()
    assert [item.key for item in remove_unused_images()] == ["a"]
    assert names() == []
    assert hold("a") is None


def test_a_lease_ends_with_the_object():
    keep("a", filled())
    assert [item.key for item in remove_unused_images()] == ["a"]


def test_what_is_named_or_was_used_lately_stays():
    for key, digest in (("a", "sha256:a"), ("b", "sha256:b"), ("c", "sha256:c")):
        keep(key, filled(digest=digest))
    assert [item.key for item in remove_unused_images(keep=["sha256:a", "b"])] == ["c"]
    used = (images_folder() / "a" / "lock").stat().st_mtime
    later = Clock(wall=lambda: used + 100.0)
    os.utime(images_folder() / "b" / "lock", (used - 50, used - 50))
    assert [item.key for item in remove_unused_images(unused_for_s=120, clock=later)] == ["b"]
    assert names() == ["a"]


def test_drafts_of_the_dead_go_and_drafts_of_the_living_stay():
    dead = images_folder() / ".draft-dead"
    dead.mkdir(parents=True)
    (dead / "lock").touch()
    (images_folder() / ".draft-young").mkdir()

    def fill(lease: Lease) -> ImageAbout:
        remove_unused_images()
        assert lease.root.exists()
        return ImageAbout(kind="archive", name="box", digest="sha256:1")

    keep("a", fill)
    assert names() == [".draft-young", "a"]


def test_whatever_else_lies_there_is_left_alone():
    (images_folder() / "something").mkdir(parents=True)
    assert list_images() == []
    remove_unused_images()
    assert names() == ["something"]


def test_two_processes_that_want_one_image_make_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    started, go = context.Event(), context.Event()

    def slow(lease: Lease) -> ImageAbout:
        started.set()
        assert go.wait(10)
        return filled("theirs")(lease)

    other = context.Process(target=keep, args=("a", slow))
    other.start()
    assert started.wait(10)
    found: list[str] = []
    waiter = threading.Thread(target=lambda: found.append((keep("a", filled("ours")).root / "file").read_text()))
    waiter.start()
    go.set()
    waiter.join(10)
    other.join(10)
    assert found == ["theirs"]


def test_a_maker_that_was_killed_leaves_a_draft_that_gc_takes(tmp_path):
    script = """
        import os, signal
        from sandlot.sandbox.images.store import keep
        keep("a", lambda lease: os.kill(os.getpid(), signal.SIGKILL))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -9
    assert [name.startswith(".draft-") for name in names()] == [True]
    remove_unused_images()
    assert names() == []
    assert (keep("a", filled()).root / "file").exists()


def test_an_image_another_process_holds_stays():
    keep("a", filled())
    script = "from sandlot.sandbox.images.store import hold; l = hold('a'); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert remove_unused_images() == []
        other.communicate("\n")
    assert [item.key for item in remove_unused_images()] == ["a"]
