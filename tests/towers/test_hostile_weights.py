"""Wrong weights and configs: a model either loads and is finite, or is a one-line error; no code in them runs."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch
from corrupt import corrupted
from safetensors.torch import load_file, save, save_file
from said import unsaid
from small_world import TINY_CONFIG

from wsoup.base.errors import LONGEST, ModelError, WsoupError
from wsoup.params.inputs import EncoderParams
from wsoup.towers.config import known_config
from wsoup.towers.encoder import load_encoder
from wsoup.towers.models import known_tokenizer, untrained_model

Tensors = dict[str, torch.Tensor]
CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path: Path, tiny_encoder_files: dict[str, str]) -> dict[str, str]:
    """Section `encoder` with its own copies of config and weights."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    config, weights = folder / "tiny-clip.json", folder / "tiny.safetensors"
    config.write_text(json.dumps(TINY_CONFIG))
    weights.write_bytes(Path(tiny_encoder_files["pretrained"]).read_bytes())
    return {**tiny_encoder_files, "config": str(config), "pretrained": str(weights)}


def error_of(files: dict[str, str]) -> str | None:
    """The one-line error for a model; None if it loads, which must then be finite."""
    try:
        encoder = load_encoder(EncoderParams(**files), device=CPU)
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= LONGEST + 2 * len(files["pretrained"])
        return text
    assert bool(encoder.encode_texts(["a cat"]).isfinite().all())
    return None


def test_the_model_itself_loads(files: dict[str, str]) -> None:
    assert error_of(files) is None


# ----------------------------------------------------------------------------------------------------- weights


class Hostile:
    """Unpickling this calls `os.system`."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch ran",)


def as_torch(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def as_zip(names: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in names.items():
            file.writestr(name, data)
    return buffer.getvalue()


HTML = b"<!DOCTYPE html><html><body>404 not found</body></html>"
WRONG_WEIGHTS: dict[str, tuple[str, Callable[[Tensors, bytes], bytes]]] = {
    "empty": (".safetensors", lambda tensors, data: b""),
    "html": (".safetensors", lambda tensors, data: HTML),
    "git_lfs": (".safetensors", lambda tensors, data: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
    "cut": (".safetensors", lambda tensors, data: data[:-1000]),
    "cut_in_its_header": (".safetensors", lambda tensors, data: data[:100]),
    "huge_header": (".safetensors", lambda tensors, data: b"\xff" * 8 + data[8:]),
    "no_tensors": (".safetensors", lambda tensors, data: save({})),
    "one_missing": (".safetensors", lambda tensors, data: save(without(tensors, "visual.proj"))),
    "one_more": (".safetensors", lambda tensors, data: save({**tensors, "more": torch.zeros(2)})),
    "other_shape": (".safetensors", lambda tensors, data: save({**tensors, "text_projection": torch.zeros(3, 3)})),
    "zip": (".safetensors", lambda tensors, data: as_torch(tensors)),
    "pt_empty": (".pt", lambda tensors, data: b""),
    "pt_html": (".pt", lambda tensors, data: HTML),
    "pt_safetensors": (".pt", lambda tensors, data: data),
    "pt_list": (".pt", lambda tensors, data: as_torch([1, 2, 3])),
    "pt_tensor": (".pt", lambda tensors, data: as_torch(torch.zeros(2))),
    "pt_of_texts": (".pt", lambda tensors, data: as_torch(dict.fromkeys(tensors, "x"))),
    "pt_state_none": (".pt", lambda tensors, data: as_torch({"state_dict": None})),
    "pt_cut": (".pt", lambda tensors, data: as_torch(tensors)[:-1000]),
    "pt_hostile": (".pt", lambda tensors, data: as_torch(Hostile())),
    "pt_hostile_inside": (".pt", lambda tensors, data: as_torch({**tensors, "more": Hostile()})),
    "pt_plain_pickle": (".pt", lambda tensors, data: pickle.dumps(Hostile())),
    "pt_zip_hostile": (".pt", lambda tensors, data: as_zip({"archive/data.pkl": pickle.dumps(Hostile())})),
    "pt_script": (".pt", lambda tensors, data: as_zip({"archive/constants.pkl": b"", "archive/code/a.py": b"x"})),
    "pt_large_tensor": (".pt", lambda tensors, data: as_torch(torch.zeros(300_000))),
    "pt_large_hostile": (".pt", lambda tensors, data: as_torch([torch.zeros(300_000), Hostile()])),
    "pt_large_state_of_texts": (".pt", lambda tensors, data: as_torch({"state_dict": "x", "y": torch.zeros(300_000)})),
    "pt_large_pickle": (".pt", lambda tensors, data: pickle.dumps([Hostile(), b"x" * 10**6])),
    "large_html": (".safetensors", lambda tensors, data: HTML * 20_000),
    "bin_hostile": (".bin", lambda tensors, data: as_torch(Hostile())),
}


def without(tensors: Tensors, name: str) -> Tensors:
    return {key: value for key, value in tensors.items() if key != name}


def test_wrong_weights(in_tmp: Path, files: dict[str, str]) -> None:
    good = Path(files["pretrained"])
    tensors, data = load_file(good), good.read_bytes()

    def load(file: str) -> None:
        _, make = WRONG_WEIGHTS[Path(file).stem]
        Path(file).write_bytes(make(tensors, data))
        load_encoder(EncoderParams(**{**files, "pretrained": file}), device=CPU)

    table = [(f"wrong/{kind}{suffix}", f"wrong/{kind}{suffix}") for kind, (suffix, _) in WRONG_WEIGHTS.items()]
    Path("wrong").mkdir()
    assert unsaid(table, load) == []
    assert unsaid([("wrong/pt_large_hostile.pt", "holds more than weights (code is never run)")], load) == []
    assert not Path("ran").exists()


def test_weights_that_unpack_to_too_much_are_refused_unread(tmp_path: Path, files: dict[str, str]) -> None:
    """A member of 64 MB, which is 64 kB here, would be read as a whole."""
    weights = as_torch(load_file(files["pretrained"]))
    bomb = tmp_path / "bomb.pt"
    with zipfile.ZipFile(io.BytesIO(weights)) as good, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in good.namelist():
            more = bytes(2**26) if name.endswith("data.pkl") else b""
            packed.writestr(name, good.read(name) + more)
    error = error_of({**files, "pretrained": str(bomb)})
    assert error is not None
    assert re.search(r"bomb\.pt has [\d,]+ bytes and unpacks to [\d,]+; PyTorch does not compress weights", error)


def test_one_weight_that_is_not_finite(files: dict[str, str]) -> None:
    whole = load_file(files["pretrained"])

    def load(given: tuple[str, float]) -> None:
        name, value = given
        tensors = {key: tensor.clone() for key, tensor in whole.items()}
        tensors[name].view(-1)[-1] = value
        save_file(tensors, files["pretrained"])
        load_encoder(EncoderParams(**files), device=CPU)

    table = []
    for name in ("visual.conv1.weight", "text_projection", "logit_scale", "ln_final.bias"):
        for value in (math.nan, math.inf, -math.inf):
            table.append(((name, value), f"tensor {name!r} holds NaN or infinity"))
    assert unsaid(table, load) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_weights_and_configs_that_are_not_files(
    tmp_path: Path, files: dict[str, str], make: Callable[[Path], None]
) -> None:
    make(tmp_path / "x.safetensors")
    assert "does not exist" in str(error_of({**files, "pretrained": str(tmp_path / "x.safetensors")}))
    make(tmp_path / "tiny-clip.json")
    assert "is not a file" in str(error_of({**files, "config": str(tmp_path / "tiny-clip.json")}))


# ----------------------------------------------------------------------------------------------------- configs


def with_value(where: str, value: object) -> Any:
    config: Any = copy.deepcopy(TINY_CONFIG)
    *sections, key = where.split(".")
    part = config
    for name in sections:
        part = part[name]
    part[key] = value
    return config


WRONG_CONFIGS = [
    ("vision_cfg.image_size", "16", "vision_cfg.image_size: '16' is not valid: it must be an integer"),
    ("vision_cfg.image_size", [16, "16"], "vision_cfg.image_size"),
    ("vision_cfg.layers", 10**9, "vision_cfg.layers: 1000000000 is not valid: it must be "),
    ("vision_cfg.layers", [10**9, 1, 1, 1], "vision_cfg.layers"),
    ("vision_cfg.layers", 0, "vision_cfg.layers: 0 is not valid"),
    ("text_cfg.layers", 10**4_000, "text_cfg.layers: a number of more than 1,000 digits is not valid"),
    ("text_cfg.layers", 1_000, "they do not belong together"),
    ("text_cfg.width", 99_999, "parameters or more, 100,000,000,000 are the most"),
    ("text_cfg.width", None, "text_cfg.width: None is not valid"),
    ("text_cfg.vocab_size", 10**7, "they do not belong together"),
    ("text_cfg.context_length", 10**9, "text_cfg.context_length: 1000000000 is not valid"),
    ("text_cfg.heads", 3, "cannot be loaded"),
    ("text_cfg.mlp_ratio", 1e300, "text_cfg.mlp_ratio: 1e+300 is not valid: it must be "),
    ("text_cfg.mlp_ratio", math.nan, "text_cfg.mlp_ratio: nan is not valid"),
    ("vision_cfg.patch_size", 0, "vision_cfg.patch_size: 0 is not valid"),
    ("vision_cfg.colour", 1, "unexpected keyword argument 'colour'"),
    ("colour", 1, "unexpected keyword argument 'colour'"),
    ("embed_dim", "16", "embed_dim: '16' is not valid"),
    ("text_cfg", [], "is not an open_clip model config: text_cfg: [] is not valid"),
    ("vision_cfg", None, "is not an open_clip model config: vision_cfg: None is not valid"),
    ("text_cfg.hf_tokenizer_name", "../no/such", "cannot be loaded"),
    ("text_cfg.tokenizer_kwargs", {"use_fast": False}, "unexpected keyword argument 'use_fast'"),
    ("text_cfg.tokenizer_kwargs", {"trust_remote_code": True}, "asks for trust_remote_code, which runs code"),
    ("trust_remote_code", True, "asks for trust_remote_code, which runs code"),
]


def test_wrong_configs(files: dict[str, str]) -> None:
    def load(change: tuple[str, object]) -> None:
        Path(files["config"]).write_text(json.dumps(with_value(*change)))
        load_encoder(EncoderParams(**files), device=CPU)

    assert unsaid([((where, value), line) for where, value, line in WRONG_CONFIGS], load) == []


NO_CONFIGS = [
    b"",
    HTML,
    b"null",
    b"{",
    b"[" * 100_000,
    b"9" * 5_000,
    json.dumps(TINY_CONFIG).encode("utf-16"),
    b"\xff\xfe",
    json.dumps({**TINY_CONFIG, "x": "ü"}, ensure_ascii=False).encode("latin-1"),
    json.dumps({key: value for key, value in TINY_CONFIG.items() if key != "embed_dim"}).encode(),
    json.dumps({key: value for key, value in TINY_CONFIG.items() if key != "text_cfg"}).encode(),
]


def test_files_that_are_not_configs(files: dict[str, str]) -> None:
    def load(data: bytes) -> None:
        Path(files["config"]).write_bytes(data)
        load_encoder(EncoderParams(**files), device=CPU)

    assert unsaid([(data, files["config"]) for data in NO_CONFIGS], load) == []


def test_a_folder_with_a_model_may_not_ask_for_trust_remote_code(tmp_path: Path) -> None:
    config = with_value("text_cfg.tokenizer_kwargs", {"trust_remote_code": True})
    config["text_cfg"]["hf_tokenizer_name"] = str(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"auto_map": {"AutoTokenizer": ["own.Tokens", None]}}))
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    escaped = json.dumps({"model_cfg": config}).replace("trust_remote_code", r"trust\u005fremote_code")
    (tmp_path / "open_clip_config.json").write_text(escaped)
    params = EncoderParams(model=f"local-dir:{tmp_path}", precision="fp32", watch="x")
    for load in (known_config, load_encoder, known_tokenizer, untrained_model):
        with pytest.raises(ModelError, match=r"open_clip_config.json asks for trust_remote_code, which runs code"):
            load(params)
    assert not (tmp_path / "ran").exists()


def test_every_config_of_open_clip_is_within_bounds() -> None:
    names = [file.stem for file in (Path(open_clip.__file__).parent / "model_configs").glob("*.json")]
    configs = {name: known_config(EncoderParams(model=name, precision="fp32", watch="x")) for name in names}
    assert len(names) > 100
    assert all(configs.values())
    assert configs["ViT-B-16"] is not None
    assert configs["ViT-B-16"].blocks == {"vision_cfg": 12, "text_cfg": 12}
    assert configs["ViT-B-16"].parameters == pytest.approx(149_620_737, rel=0.01)  # what open_clip builds


# ----------------------------------------------------------------------------------------------------- damaged


def damage(files: dict[str, str], *, which: str, seed: int) -> None:
    """Damage weights or config: the model loads and is finite, or a one-line error says why not."""
    path = Path(files["config" if which == "config" else "pretrained"])
    if which == "pt":
        data, path = as_torch(load_file(path)), path.with_suffix(".pt")
        files = {**files, "pretrained": str(path)}
    else:
        data = path.read_bytes()
    path.write_bytes(corrupted(data[:200_000] if which == "header" else data, seed=seed))
    error_of(files)


@pytest.mark.parametrize("which", ["config", "safetensors", "pt"])
def test_a_sample_of_damaged_files(files: dict[str, str], which: str) -> None:
    for seed in range(6):
        damage({**files}, which=which, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 40))
@pytest.mark.parametrize("which", ["config", "safetensors", "pt"])
def test_damaged_files(files: dict[str, str], which: str, seed: int) -> None:
    damage(files, which=which, seed=seed)
