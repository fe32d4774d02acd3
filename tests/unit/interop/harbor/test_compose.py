"""What the `docker-compose.yaml` of a Terminal-Bench task says about its container."""

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.harbor.compose import read_compose
from sandlot.interop.harbor.source import read_terminal_bench


@pytest.fixture
def compose(tmp_path):
    """Reads the one service with these lines."""

    def read(*lines, also=""):
        (tmp_path / "client").mkdir(exist_ok=True)
        text = "services:\n  client:\n" + "".join(f"    {line}\n" for line in lines or ["build: {}"]) + also
        (tmp_path / "docker-compose.yaml").write_text(text)
        return read_compose(tmp_path)

    return read


def test_a_task_without_one_is_built_from_its_own_folder(tmp_path):
    found = read_compose(tmp_path)
    assert (found.context, found.containerfile, found.notes) == (tmp_path, "Dockerfile", ())


def test_the_folder_and_the_file_of_the_build_are_taken(tmp_path, compose):
    assert compose("build: {context: client, dockerfile: Other}").context == tmp_path / "client"
    assert compose("build: {context: client, dockerfile: Other}").containerfile == "Other"
    assert compose("build: ./client").context == tmp_path / "client"
    assert compose("build: {dockerfile: Dockerfile}").context == tmp_path


@pytest.mark.parametrize("build", ["..", "/etc", "client/../..", "none", "https://example.org/x.git"])
def test_a_build_outside_of_the_task_is_refused(compose, build):
    with pytest.raises(ConfigError, match="not a folder of the task"):
        compose(f"build: {build}")


def test_a_containerfile_outside_of_its_folder_is_refused(compose):
    with pytest.raises(ConfigError, match="not a file of"):
        compose("build: {context: client, dockerfile: ../Dockerfile}")


def test_variables_and_the_working_folder_become_the_images(compose):
    found = compose(
        "working_dir: /app",
        "environment:",
        "  - TEST_DIR=${T_BENCH_TEST_DIR}",
        "  - MODE=a $b",
        "  - KEY=${KEY}",
        "  - FROM_THE_HOST",
    )
    assert found.env == {"MODE": "a $b"}
    assert found.folder == "/app"
    assert found.notes == ("variables that the host would set are left out: KEY, FROM_THE_HOST",)
    assert compose("environment: {A: 1, B: true}").env == {"A": "1", "B": "true"}


@pytest.mark.parametrize(
    "line", ['command: ["sh", "-c", "sleep infinity"]', "command: sleep infinity", "command: tail -f /dev/null", "command: bash"]
)
def test_a_command_that_only_waits_is_nothing(compose, line):
    assert compose(line).notes == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('command: ["sh", "-c", "python3 server.py & sleep infinity"]', r"starts `sh -c python3 server\.py & sleep infinity`"),
        ("entrypoint: /start.sh", r"starts `/start\.sh`"),
        ("volumes: [./data:/app/data]", r"mounts `\./data:/app/data`"),
        ("volumes: [{type: bind, source: /etc, target: /x}]", "mounts"),
        ("runtime: nvidia", "accelerator"),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia}]}}}", "accelerator"),
        ("environment: {A B: c}", "variable"),
    ],
)
def test_what_a_sandbox_cannot_give_leaves_the_task_out(compose, line, why):
    with pytest.raises(ConfigError, match=why):
        compose(line)


def test_the_folders_of_logs_are_no_mounts_and_smaller_wishes_are_notes(compose):
    found = compose(
        "volumes: ['${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}']", "dns: [192.0.2.1]", "privileged: true"
    )
    assert found.notes == ("`docker-compose.yaml` asks for privileged, dns, which a sandbox does not give",)


def test_a_task_is_read_from_the_folder_that_its_compose_file_names(tmp_path):
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "Dockerfile").write_text("FROM debian:trixie\n")
    (tmp_path / "task.yaml").write_text("instruction: Do it.\n")
    (tmp_path / "run-tests.sh").write_text("pytest\n")
    (tmp_path / "docker-compose.yaml").write_text("services: {client: {build: {context: client}, environment: {A: b}}}\n")
    found = read_terminal_bench(tmp_path)
    assert (found.context, found.containerfile, found.image_env) == (tmp_path / "client", "Dockerfile", {"A": "b"})
