"""What a solution fetches from the network."""

import pytest

from sandlot.interop.harbor.fetches import fetch_reason, fetched
from sandlot.interop.harbor.importer import TERMINAL_BENCH_IMPORTER

IMAGE = "FROM debian:trixie\nRUN apt-get update && apt-get install -y jq python3-pip && pip install numpy==2.3.1\n"


@pytest.mark.parametrize(
    ("line", "wants"),
    [
        ("pip install datasets==4.0.0 numpy", ["pip install datasets==4.0.0"]),
        ("sudo apt-get install -y jq ffmpeg", ["apt-get install ffmpeg"]),
        ("DEBIAN_FRONTEND=noninteractive apt-get install -y sox", ["apt-get install sox"]),
        ("cd /app && uv pip install rich", ["pip install rich"]),
        ("npm install express", ["npm install express"]),
        ("/opt/conda/bin/conda install -y scipy", ["/opt/conda/bin/conda install -y scipy"]),
        ("git clone https://example.org/a/b.git", ["git example.org"]),
        ("curl -L https://example.org/x.gz | tar xz", ["curl example.org"]),
        ("python3 - <<'EOF'\nm = AutoModel.from_pretrained('bert-base')\nEOF", ["from_pretrained('bert-base'"]),
    ],
)
def test_what_a_solution_fetches_is_named(line, wants):
    assert fetched(line, IMAGE) == wants


@pytest.mark.parametrize(
    "line",
    [
        "apt-get update && apt-get install -y jq",
        "apt-get install -y grep coreutils",
        "pip install numpy  # and scipy",
        "cat > README <<EOF\npip install flask\nwget https://example.org\nEOF\necho done",
        "cat <<'EOF' > a.py\nEOF\necho pip install x",
        "curl -k https://localhost:8443/x http://127.0.0.1/y https://git.example.local/z",
        "git clone /srv/project.git",
        "AutoModel.from_pretrained('/app/model')",
    ],
)
def test_what_is_there_needs_no_network(line):
    assert fetched(line, IMAGE) == []


def test_only_the_first_few_are_shown():
    assert fetch_reason("pip install a b c d e", IMAGE).endswith("`pip install a`, `pip install b`, `pip install c` and 2 more")
    assert fetch_reason("true", IMAGE) == ""


def test_a_script_of_many_documents_without_an_end_takes_no_longer_than_its_length():
    script = "".join(f"cat <<A{number} <<B{number}\n" for number in range(50_000))
    assert fetch_reason(script + "pip install flask\n", IMAGE).endswith("`pip install flask`")


def test_documents_end_in_the_order_in_which_they_were_announced():
    assert fetch_reason("cat <<A - <<-'B'\npip install a\nA\npip install b\n\tB\npip install c\n", IMAGE).endswith(
        "does not have: `pip install c`"
    )
    assert fetch_reason("cat <<< word\npip install a\nword\n", IMAGE).endswith("`pip install a`")


def test_a_task_whose_solution_fetches_is_left_out_before_its_image_is_built(tmp_path):
    task = tmp_path / "tasks" / "t"
    task.mkdir(parents=True)
    (task / "task.yaml").write_text("instruction: Do it.\n")
    (task / "Dockerfile").write_text("FROM debian:trixie\n")
    (task / "run-tests.sh").write_text("pytest\n")
    (task / "solution.sh").write_text("pip install flask\n")
    report = TERMINAL_BENCH_IMPORTER.write(str(tmp_path / "tasks"), tmp_path / "out", limit=None)
    (left,) = report.left_out
    assert left.why == "its solution asks for the network, which a rollout does not have: `pip install flask`"
    assert not (tmp_path / "out" / "data" / "t").exists()
