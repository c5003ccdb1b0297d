"""Models of transformers (4 and 5): their own features, in soups, heads and commands."""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import re
import shlex
from pathlib import Path

import open_clip
import pytest
import torch
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.base.errors import ModelError
from wsoup.images.decode import load_rgb

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

NAMES = sorted(COLOURS)
WORDS = ["<pad>", "<eos>", "<unk>", "a", "photo", "of", *NAMES, ",", ".", "sharp", "flat", "bright"]
WORDS += ["▁", *"bcdefghijklmnopqrstuvwxyz"]  # SigLIP 2's own tokenizer class reads letters
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
CONTEXT = 64
TEXT = {**TOWER, "vocab_size": len(WORDS), "max_position_embeddings": CONTEXT, "bos_token_id": 1, "eos_token_id": 1}
VISION = {**TOWER, "image_size": 16, "patch_size": 8}
KINDS = {
    "CLIP": (VISION, {"projection_dim": 8}, {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}),
    "Siglip": (VISION, {}, {"size": {"height": 16, "width": 16}}),
    "Siglip2": ({**TOWER, "patch_size": 8, "num_patches": 16}, {}, {"patch_size": 8, "max_num_patches": 16}),
}


def a_tokenizer():
    """One token per word."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", WORDS.index("<eos>"))]
    )
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>", "padding_side": "right"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory) -> str:
    """A tiny model with random weights and its processor, saved as on the hub."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    kind, place = request.param, tmp_path_factory.mktemp(request.param)
    vision, more, size = KINDS[kind]
    config = getattr(transformers, f"{kind}Config")(text_config=TEXT, vision_config=vision, **more)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, f"{kind}Model")(config).eval()
        if kind != "CLIP":
            model.logit_scale.data.fill_(2.0)
    model.save_pretrained(place)
    images = getattr(transformers, f"{kind}ImageProcessor")(**size)
    getattr(transformers, f"{kind}Processor")(image_processor=images, tokenizer=a_tokenizer()).save_pretrained(place)
    return str(place)


@pytest.fixture
def paths(in_tmp) -> list[str]:
    root = write_image_folder(Path("photos"), splits={".": 3}, classes=COLOURS)
    return sorted(str(path) for path in root.rglob("*.png"))


def test_features_are_the_models_own(folder, paths):
    ours = wsoup.from_transformers(folder)
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    texts = ["a photo of a red", "a photo of a blue sharp"]
    how = {"padding": "max_length", "truncation": True, "max_length": CONTEXT, "return_tensors": "pt"}
    given = processor.image_processor(images=[load_rgb(path) for path in paths], return_tensors="pt")
    with torch.no_grad():
        out = theirs(input_ids=processor(text=texts, **how).input_ids, **given)
        features = torch.nn.functional.normalize(ours.encode_text(ours.tokenizer(texts)), dim=1)
    torch.testing.assert_close(features, out.text_embeds, atol=1e-6, rtol=0)
    images = wsoup.encode_images(paths, model=ours, preprocess=ours.preprocess, progress=False)
    torch.testing.assert_close(images, out.image_embeds, atol=1e-6, rtol=0)
    assert float(ours.logit_scale) == pytest.approx(float(theirs.logit_scale.detach()))


def test_a_soup_and_a_head_load_their_model_by_name(folder, paths):
    model = wsoup.from_transformers(folder)
    how = {"class_names": NAMES, "model": model, "tokenizer": model.tokenizer}
    features = wsoup.encode_images(paths, model=model, preprocess=model.preprocess, progress=False)
    labels = [Path(path).parent.name for path in paths]
    soup = wsoup.descriptor_soup(features, labels, descriptors=["sharp", "flat"], m=2, progress=False, **how)
    wsoup.fit_head(features, labels, soup=soup, **how).save("head.safetensors")
    assert soup.encoder["model"] == f"hf:{folder}"
    assert soup.preprocessing == model.preprocessing
    soup.save("soup.json")
    answers = [NAMES[i] for i in (features @ soup.classifier(**how)).argmax(1)]
    code, printed, errors = run("classify", "photos", "--soup", "soup.json", "--classes", ",".join(NAMES))
    assert code == 0, errors
    assert [row["class"] for row in csv.DictReader(io.StringIO(printed))] == answers
    assert run("classify", "photos", "--soup", "head.safetensors")[0] == 0
    code, _, errors = run("classify", "photos", "--soup", "head.safetensors", "--pretrained", "openai")
    assert code == 1, errors
    assert "brings its own weights and preprocessing; leave out pretrained" in errors


def test_wsoup_try_takes_such_a_model(folder, paths):
    code, printed, errors = run("try", "photos", "--model", f"hf:{folder}", "--template", "a {}.", "--shots", "1")
    assert code == 0, errors
    assert "class name" in printed
    command = re.search(r"next: wsoup (classify .*)", printed)[1].replace("PHOTOS", "photos")
    assert run(*shlex.split(command))[0] == 0


SAID = ["A photo of a Red, Sharp.", "a_photo of  a blue"]


@pytest.mark.parametrize("kind", ["Siglip", "Siglip2"])
def test_texts_are_those_of_open_clips_configuration(kind, tmp_path):
    """With the tokenizer class that transformers has for SigLIP 2, and one that leaves texts as they are."""
    own = a_tokenizer()
    if kind == "Siglip2":
        pieces = {word: i for i, word in enumerate(WORDS)} | {"<bos>": len(WORDS), "<mask>": len(WORDS) + 1}
        own = transformers.Siglip2Tokenizer(vocab=pieces, merges=[], padding_side="right")
    size = KINDS[kind][2]
    images = getattr(transformers, f"{kind}ImageProcessor")(**size)
    processor = getattr(transformers, f"{kind}Processor")(image_processor=images, tokenizer=own)
    config = getattr(transformers, f"{kind}Config")(text_config=TEXT, vision_config=KINDS[kind][0])
    processor.save_pretrained(tmp_path)
    ours = wsoup.from_transformers(getattr(transformers, f"{kind}Model")(config), processor=processor)
    (clean,) = {open_clip.get_model_config(f"ViT-B-16-{name}")["text_cfg"]["tokenizer_kwargs"]["clean"]
                for name in ("SigLIP", "SigLIP2")}  # fmt: skip
    theirs = open_clip.tokenizer.HFTokenizer(str(tmp_path), context_length=CONTEXT, clean=clean)
    assert torch.equal(ours.tokenizer(SAID), theirs(SAID))
    plain = ours.tokenizer(["a photo of a red sharp", "a photo of a blue"])
    assert torch.equal(ours.tokenizer(SAID), plain)
    assert not torch.equal(plain[0], plain[1])


def test_clips_texts_are_in_lower_case_whatever_its_tokenizer_does():
    config = transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=8)
    processor = transformers.CLIPProcessor(
        image_processor=transformers.CLIPImageProcessor(**KINDS["CLIP"][2]), tokenizer=a_tokenizer()
    )
    ours = wsoup.from_transformers(transformers.CLIPModel(config), processor=processor)
    assert torch.equal(ours.tokenizer(["A Photo, red."]), ours.tokenizer(["a photo, red."]))
    assert not torch.equal(ours.tokenizer(["a photo, red."]), ours.tokenizer(["a photo red"])), "it reads punctuation"


@pytest.mark.parametrize("lowers", [False, True])
def test_of_a_type_that_is_not_known_one_line_says_that_texts_are_as_they_are(lowers):
    """Nothing needs to be said where the tokenizer itself makes no difference."""
    own = a_tokenizer()
    if lowers:
        own.backend_tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    images = transformers.CLIPImageProcessor(**KINDS["CLIP"][2])
    processor = transformers.CLIPProcessor(image_processor=images, tokenizer=own)
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=8))
    model.config.model_type = "otherclip"
    said = pytest.warns(
        UserWarning, match=r"a model of type otherclip was trained on texts in lower case; they are used"
    )
    with contextlib.nullcontext() if lowers else said:
        ours = wsoup.from_transformers(model, processor=processor)
    assert torch.equal(ours.tokenizer(["A photo"]), ours.tokenizer(["a photo"])) == lowers


def test_a_model_in_memory_needs_its_processor(folder):
    model = transformers.AutoModel.from_pretrained(folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    ours = wsoup.from_transformers(model, processor=processor)
    assert (ours.name, ours.tokenizer(["a photo"]).shape) == (None, (1, CONTEXT))
    with pytest.raises(ModelError, match=r"Model with NoneType: expected .* its own processor"):
        wsoup.from_transformers(model)


def test_other_models_are_refused_in_one_line(in_tmp):
    with pytest.raises(ModelError, match="Linear with NoneType: expected CLIP, SigLIP or SigLIP 2"):
        wsoup.from_transformers(torch.nn.Linear(1, 1))
    Path("empty").mkdir()
    with pytest.raises(ModelError, match="transformers cannot load empty") as caught:
        wsoup.from_transformers("empty")
    assert "\n" not in str(caught.value)
