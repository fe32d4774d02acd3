import subprocess

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.repositories.git_tree import commit_files, find_repository


@pytest.fixture
def repository(tmp_path):
    """A git directory whose own configuration would run a program, and a commit with a link in it."""
    work = tmp_path / "o__r"
    work.mkdir()

    def git(*arguments):
        options = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        return subprocess.run(["git", *options, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (work / "a.py").write_text("one\n")
    (work / "sub").mkdir()
    (work / "sub" / "b.bin").write_bytes(b"\0\n\xff")
    (work / ".gitattributes").write_text("* filter=evil\n")
    (work / "link").symlink_to("/etc/passwd")
    git("add", "-A")
    git("commit", "-m", "first")
    with (work / ".git" / "config").open("a") as file:
        file.write(f'[filter "evil"]\n\tsmudge = touch {tmp_path}/ran; cat\n[core]\n\tfsmonitor = touch {tmp_path}/ran\n')
    return tmp_path, git("rev-parse", "HEAD")


def test_files_of_a_commit_are_read_and_nothing_is_run(repository):
    folder, commit = repository
    files = commit_files(find_repository(folder, "o/r"), commit)
    assert files == {".gitattributes": b"* filter=evil\n", "a.py": b"one\n", "sub/b.bin": b"\0\n\xff"}
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("commit", ["--upload-pack=evil", "HEAD", "", "z" * 40])
def test_only_hashes_name_commits(repository, commit):
    with pytest.raises(ConfigError, match="give its hash"):
        commit_files(find_repository(repository[0], "o/r"), commit)


def test_what_is_not_there_is_named(repository):
    with pytest.raises(ConfigError, match="git ls-tree"):
        commit_files(find_repository(repository[0], "o/r"), "0" * 40)
    with pytest.raises(ConfigError, match="no git directory of `o/x`"):
        find_repository(repository[0], "o/x")


def test_a_missing_object_is_not_fetched_with_a_program_of_the_configuration(repository):
    folder, commit = repository
    git = find_repository(folder, "o/r")
    blob = subprocess.run(["git", f"--git-dir={git}", "rev-parse", f"{commit}:a.py"], check=True, capture_output=True, text=True)
    name = blob.stdout.strip()
    (git / "objects" / name[:2] / name[2:]).unlink()
    with (git / "config").open("a") as file:
        file.write("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n")
        file.write(f'[remote "origin"]\n\tpromisor = true\n\turl = "ext::sh -c touch% {folder}/ran"\n')
        file.write('[protocol "ext"]\n\tallow = always\n')
    with pytest.raises(ConfigError, match=r"ls-tree|not in the git directory"):
        commit_files(git, commit)
    assert not (folder / "ran").exists()


def test_what_a_clone_without_large_files_lacks_is_left_out(repository):
    folder, commit = repository
    git = find_repository(folder, "o/r")
    blob = subprocess.run(
        ["git", f"--git-dir={git}", "rev-parse", f"{commit}:sub/b.bin"], check=True, capture_output=True, text=True
    )
    name = blob.stdout.strip()
    (git / "objects" / name[:2] / name[2:]).unlink()
    assert set(commit_files(git, commit)) == {".gitattributes", "a.py"}


@pytest.mark.parametrize("name", ["..", ".", ".git"])
def test_names_of_a_tree_do_not_lead_out(repository, name):
    """Git itself refuses to write such a tree; whoever makes one by hand does not."""
    folder, _ = repository
    git = find_repository(folder, "o/r")

    def write(kind, data):
        command = ["git", f"--git-dir={git}", "hash-object", "-w", "--literally", "-t", kind, "--stdin"]
        return subprocess.run(command, input=data, check=True, capture_output=True).stdout.decode().strip()

    inner = write("tree", b"100644 evil.py\0" + bytes.fromhex(write("blob", b"evil")))
    outer = write("tree", b"40000 " + name.encode() + b"\0" + bytes.fromhex(inner))
    with pytest.raises(ConfigError, match="outside of its folder"):
        commit_files(git, outer)


@pytest.mark.parametrize("repo", ["../o__r", "..", "o/..", "/etc", "o/r/../x", "", "-c/x"])
def test_a_repository_is_named_by_owner_and_name(repository, repo):
    with pytest.raises(ConfigError, match="write `owner/name`"):
        find_repository(repository[0], repo)
