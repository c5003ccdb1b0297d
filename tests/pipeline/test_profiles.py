"""`wsoup profile`: a params.yaml that loads and has every value that the user gave."""

from __future__ import annotations

import copy
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.hydra import apply_overrides
from project import ROOT
from repository import git as run_git
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.datasets import folder
from wsoup.datasets.paper import PAPER
from wsoup.paper.tables import ENCODERS
from wsoup.params.reading import parse_yaml
from wsoup.photos.labelled import look
from wsoup.pipeline.params import Params, parse_params
from wsoup.pipeline.profiles import own
from wsoup.pipeline.profiles.demo import demo
from wsoup.pipeline.profiles.methods import DATA, GROUPS, methods_of
from wsoup.pipeline.profiles.paper import Paper
from wsoup.pipeline.profiles.templates import FOLDER, filled, template
from wsoup.pipeline.profiles.writing import write

OTHER = {"one": (200, 30, 30), "two": (30, 180, 40)}


def loaded(text: str) -> Params:
    return parse_params(safe_load(text), origin="params.yaml")


def of_photos(images: object, *, pretrained: str = "openai", **choices: Any) -> str:
    return own.own(str(images), encoder={"model": "ViT-B-32", "pretrained": pretrained}, **choices)[0]


# ------------------------------------------------------------------------------------------------------ templates


@pytest.mark.parametrize("text", [demo("core"), demo("all"), Paper("data").text()], ids=["core", "all", "paper"])
def test_readers_of_yaml_1_1_see_the_same_values_as_wsoup(text: str) -> None:
    """``1e-05`` without a point is a text to PyYAML; small numbers that are filled in have a point as well."""
    small = filled(text, {"finetune.weight_decay": 2e-07})
    assert "weight_decay: 2.0e-07" in small
    for written in (text, small):
        assert safe_load(written) == parse_yaml(written, origin="params.yaml")


def test_values_are_set_and_comments_stay() -> None:
    text = "# one\n# two\na: 1      # first\nb:      # second\n  c:    # third\n  - 1\n  d: 2\n\n# 4\ne: {f: 3}\n"
    assert filled(text, {"a": 100, "b.d": "no"}) == text.replace("a: 1  ", "a: 100").replace("d: 2", "d: no")
    assert filled(text, {"b.c": [1, 2]}) == text.replace("- 1\n", "- 1\n  - 2\n")
    nested = filled(text, {"b": {"x": 1, "y": {"z": []}}}).partition("# second\n")[2]
    assert nested.startswith("  x: 1\n  y:\n    z: []\n\n# 4")
    assert filled(text, {"b.c": None}) == text.replace("  c:    # third\n  - 1\n", "")
    assert filled(text, {"e": 4}, head="# new\n").splitlines()[1:3] == ["# new", "a: 1      # first"]


def written(tmp_path: Path) -> dict[str, str]:
    """Every params.yaml that wsoup writes, and the project's own."""
    root = str(write_image_folder(tmp_path / "set", splits={"train": 2, "test": 1}, classes=COLOURS))
    return {
        "project": (ROOT / "params.yaml").read_text(),
        **{f"template {name}": (FOLDER / f"{name}.yaml").read_text() for name in ("demo", "own", "paper")},
        **{f"demo {group}": demo(group) for group in GROUPS},
        "own": of_photos(root),
        "paper": Paper("/data", gpt_descriptors="/gpt", methods="all", words="/gpt/w.txt").text(),
        "dtd": Paper("/data", source="dtd").text(),
    }


def test_dvc_changes_the_lines_of_the_values_that_are_set_and_no_other(tmp_path: Path) -> None:
    """`dvc exp run -S`, by the function of DVC that it calls."""
    for name, text in written(tmp_path).items():
        values = {"fewshot.shots": 7, "soups.word.k0": 50, "report.mode": "score_mean", "evaluate.survey.m": 3}
        file = tmp_path / "params.yaml"
        file.write_text(text)
        apply_overrides(file, [f"{key}={value}" for key, value in values.items()])
        pairs = list(zip(text.splitlines(), file.read_text().splitlines(), strict=True))
        changed = [new.split("#")[0].strip() for old, new in pairs if old != new]
        assert changed == [f"{key.rpartition('.')[2]}: {values[key]}" for key in (
            "fewshot.shots", "soups.word.k0", "evaluate.survey.m", "report.mode")], name  # fmt: skip


def test_keys_that_dvc_tracks_one_by_one_must_be_there() -> None:
    """DVC would find them missing after the stage has run, and record nothing."""
    raw = safe_load((ROOT / "params.yaml").read_text())
    raw["landscape"]["methods"] = ["soft"]  # without methods there is no such stage
    for stage in safe_load((ROOT / "dvc.yaml").read_text())["stages"].values():
        for key in (
            key for key in stage.get("do", stage).get("params", ()) if isinstance(key, str) and "${" not in key
        ):
            *sections, last = key.split(".")
            section = shortened = copy.deepcopy(raw)
            for name in sections:
                section = section[name]
            del section[last]
            with pytest.raises(ParamsError, match=last):
                parse_params(shortened, origin="params.yaml")


# ---------------------------------------------------------------------------------------------------------- paper


def of_paper(data_root: str = "/data", gpt: str | None = "/gpt", **choices: Any) -> Params:
    return loaded(Paper(data_root, gpt_descriptors=gpt, **choices).text())


def test_options_of_the_papers_profile_are_keys_of_params_yaml() -> None:
    params = of_paper(waffle="/gpt/waffle.txt", fewshot_pickles="/pickles", model="ViT-L-14")
    assert params.candidates.waffle == "/gpt/waffle.txt"
    assert params.candidates.watch == "/gpt"
    assert params.datasets["imagenet"].fewshot_pickles == "/pickles"
    assert (params.encoder.model, params.encoder.pretrained) == ("ViT-L-14", "laion2b_s32b_b82k")
    assert of_paper(gpt=None, waffle="/w/waffle.txt").candidates.watch == "/w/waffle.txt"
    assert of_paper(model="RN50", pretrained="yfcc15m").encoder.pretrained == "yfcc15m"


@pytest.mark.parametrize("options", [{}, {"model": "ViT-L-14"}, {"gpt_descriptors": "gpt"}])
def test_the_papers_profile_names_bf16_where_the_processor_is_fast_at_it(monkeypatch, options) -> None:
    texts = {}
    for fast in (False, True):
        monkeypatch.setattr("wsoup.pipeline.profiles.paper.has_fast_bf16", lambda fast=fast: fast)
        texts[fast] = Paper("/data", **options).text()
    comment = "# fp32 | bf16 (fast on this processor; docs/performance.md) | fp16 (autocast) |"
    assert comment in texts[True]
    assert texts[True].replace(comment, "# fp32 | bf16 | fp16 (autocast) |") == texts[False]
    assert safe_load(texts[True]) == safe_load(texts[False])


def test_weights_in_a_file_are_watched(tmp_path) -> None:
    weights = tmp_path / "weights.safetensors"
    weights.touch()
    encoder = of_paper(pretrained=str(weights)).encoder
    assert (encoder.model, encoder.pretrained, encoder.watch) == ("ViT-B-16", str(weights), str(weights))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"model": "RN50"}, "--model RN50 is not one of the paper's, ViT-B-16, ViT-B-32, ViT-L-14"),
        ({"waffle": "/w/waffle.txt"}, "--waffle /w/waffle.txt must lie in the folder of --gpt-descriptors, /gpt"),
        ({"fewshot_pickles": "/p", "source": "dtd"}, "the authors' draws of imagenet, and --source is dtd"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(choices: dict[str, str], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        of_paper(**choices)


@pytest.mark.parametrize("all_options", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_combination_of_options_of_the_paper_gives_a_file_that_loads(all_options: bool) -> None:
    """All groups x sources x descriptors; with more time also x words x Waffle's list x models."""
    base = safe_load(template("paper"))
    sources = [name for name, known in PAPER.items() if known.role != "dg"] + ["laion:/laion"]
    choices: list[Any] = [GROUPS, sources, (None, "/gpt")]
    more = [(None, "/w.txt"), (False, True), (None, *(model for model, _ in ENCODERS[1:]))]
    choices += more if all_options else [each[-1:] for each in more]
    n = 0
    for group, source, gpt, words, has_waffle, model in product(*choices):
        waffle = f"{gpt or '/lists'}/waffle.txt" if has_waffle else None
        pickles = "/shots" if source == "imagenet" and has_waffle else None
        options = {"gpt_descriptors": gpt, "words": words, "waffle": waffle, "fewshot_pickles": pickles}
        paper = Paper("/data", methods=group, source=source, model=model, **options)
        params = parse_params(with_values(base, paper.values()), origin=f"{group}, {source}, {options}, {model}")
        assert params.report.method in params.finetune.methods
        n += 1
    assert n == (3360 if all_options else 168)


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_gives_a_file_that_a_command_takes(group: str, in_tmp: Path) -> None:
    """As written and read: of the toy world, and of the paper with and without descriptors."""
    texts = [demo(group), *(Paper("/data", methods=group, gpt_descriptors=gpt).text() for gpt in (None, "/gpt"))]
    for text in texts:
        Path("params.yaml").write_text(text)
        code, _, errors = run("profile", "table")
        assert (code, errors) == (0, ""), group
    landscape = loaded(demo("landscape"))
    assert landscape.landscape.methods == ["soft_random", "soft_word_diverse"]
    assert landscape.report.method == "soft_word_diverse"
    assert loaded(demo("all")).report.method == "coop_diverse"


def with_values(base: dict[str, Any], values: dict[str, object]) -> dict[str, Any]:
    """A params.yaml as data with values by dotted key, as `filled` sets them in its text."""
    params = copy.deepcopy(base)
    for path, value in values.items():
        *outer, key = path.split(".")
        section = params
        for name in outer:
            section = section[name]
        if value is None:
            del section[key]
        else:
            section[key] = value
    return params


def test_values_of_a_profile_are_those_of_its_text() -> None:
    paper = Paper("/data", methods="landscape", words="/w.txt", model="ViT-L-14")
    text = paper.text()
    assert with_values(safe_load(template("paper")), paper.values()) == safe_load(text)


def test_the_paper_needs_no_data_and_dvc_watches_small_files() -> None:
    params = of_paper()
    assert list(params.datasets) == list(PAPER)
    assert (params.encoder.model, params.encoder.pretrained) == ("ViT-B-16", "openai")
    assert params.candidates.descriptors.paths == ["/gpt/descriptors_imagenet.json"]
    assert list(params.soups) == ["descriptor", "word", "word_curve", "top", "sample", "descriptor_sample"]
    assert params.datasets["imagenet"].watch == "/data/imagenet/classnames.txt"
    assert all(Path(dataset.watch).suffix in (".txt", ".json") for dataset in params.datasets.values())
    assert params.datasets["sun397"].gpt_descriptors == "/gpt/descriptors_sun.json"


def values(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {k: v for key, part in value.items() for k, v in values(part, f"{prefix}.{key}" if prefix else key).items()}


def test_the_profile_has_every_setting_that_the_paper_fixes() -> None:
    raw = values(of_paper(methods="all").model_dump(mode="json", by_alias=True))
    fixed = safe_load((DATA / "paper/settings.yaml").read_text())
    del fixed["pools"], fixed["differs"]
    fixed["finetune"]["methods"] = methods_of("all")
    assert {key: raw[key] for key in values(fixed)} == values(fixed)


def test_the_authors_words_come_from_a_file_that_dvc_watches(tmp_path) -> None:
    words = of_paper(words="/gpt/words.txt").candidates.words
    assert (words.path, words.count, words.period) == ("/gpt/words.txt", 9894, False)
    with_words = of_paper(words="words.txt", methods="all")
    assert (with_words.candidates.words.watch, with_words.candidates.watch) == ("words.txt", "/gpt")
    starts = {getattr(method.tune, "words", None) for method in with_words.finetune.methods.values()}
    assert starts == {None, "words.txt"}
    alone = of_paper(gpt=None, words="/lists/words.txt").candidates
    assert (alone.words.path, alone.words.watch) == ("/lists/words.txt", "/lists/words.txt")
    (tmp_path / "own.txt").write_text("".join(f"w{i}\n" for i in range(1200)))
    assert of_paper(gpt=str(tmp_path), words=str(tmp_path / "own.txt")).candidates.words.count == 1200


def test_descriptors_are_an_explicit_choice() -> None:
    code, _, errors = run("profile", "paper", "--data-root", ".")
    message = "the paper's descriptors are needed: --gpt-descriptors DIR with the files of gpt_descriptors/ in github"
    assert code == 1, errors
    assert message in errors
    assert run("profile", "paper", "--data-root", "/data", "--gpt-descriptors", "none")[:2] == (
        0,
        Paper("/data").text(),
    )
    params = of_paper(gpt=None, methods="all")
    assert params.candidates.descriptors.paths == []
    assert list(params.soups) == ["word", "word_curve", "top", "sample"]
    assert not any(dataset.gpt_descriptors for dataset in params.datasets.values())
    assert "coop_descriptor" not in params.finetune.methods


def test_odd_folder_names_survive() -> None:
    root = "/my data: {all}, #1"
    params = of_paper(root, gpt=root)
    assert {dataset.root for dataset in params.datasets.values()} == {root}
    assert params.candidates.descriptors.paths == [f"{root}/descriptors_imagenet.json"]


def test_the_papers_encoders_are_open_clips_and_named_in_the_profile() -> None:
    import open_clip

    encoder = of_paper().encoder
    assert (encoder.model, encoder.pretrained) == ENCODERS[0]
    assert set(ENCODERS) <= set(open_clip.list_pretrained())
    assert [pair for pair in ENCODERS[1:] if " / ".join(pair) not in template("paper")] == []


def test_with_another_source_imagenet_is_a_target_and_shifts_are_left_out() -> None:
    params = of_paper(source="oxford_pets")
    roles = {name: dataset.role for name, dataset in params.datasets.items()}
    assert (params.source, roles.pop("oxford_pets")) == ("oxford_pets", "source")
    assert (set(roles.values()), len(roles)) == ({"xd"}, 10)
    params = of_paper(source="laion:/laion")
    assert list(params.datasets) == ["laion", *(name for name in PAPER if name != "imagenet")]
    source = params.datasets[params.source]
    assert (source.role, source.layout, source.root) == ("source", "laion:/laion", "/data")


def test_choices_that_the_paper_lacks_are_refused() -> None:
    for choice, message in (
        *(
            ({"source": source}, f"--source {source!r} is not one of the paper's datasets with training images")
            for source in ("imagenet_a", "laion", "dtd:/laion")
        ),
        ({"methods": "most"}, "--methods 'most' must be one of core, few-shot, diversity"),
    ):
        with pytest.raises(ParamsError, match=message):
            of_paper(**choice)


def test_every_soup_of_the_profiles_has_a_sample_of_at_least_64_members_to_beat(tmp_path: Path) -> None:
    """The verdict compares selections with it; of a small pool of the user's descriptors all are drawn."""
    root = write_image_folder(tmp_path / "set", splits={"train": 2, "test": 1}, classes=COLOURS)
    for params in (of_paper(), loaded(template("demo")), loaded(of_photos(root))):
        for name in ("word", "top"):
            assert params.soups["sample"].m >= 64  # 8 random words are noisy
            assert params.soups[name].pool == params.soups["sample"].pool
    for params in (loaded(template("demo")), loaded(of_photos(root))):
        assert params.soups["held_out"].m == params.soups["sample"].m
        assert params.soups["held_out"].pool == params.soups["sample"].pool
    assert "held_out" not in of_paper().soups, "the paper's profile has the paper's searches"
    paper_soups = of_paper().soups
    assert paper_soups["descriptor"].m == paper_soups["descriptor_sample"].m


# -------------------------------------------------------------------------------------------------------- methods


def test_one_list_makes_the_toys_methods_and_the_papers() -> None:
    toy_methods, theirs = loaded(demo("all")).finetune.methods, of_paper(methods="all").finetune.methods
    missing = set(theirs) - set(toy_methods)
    assert missing == {"bitfit_3", "ssf_3", "coop_diverse_16"}  # two blocks a tower, and no word_curve
    assert list(toy_methods) == [name for name in theirs if name not in missing]
    for name, method in toy_methods.items():
        toy_loss, their_loss = (
            each.loss.model_dump(exclude={"teacher_logit_scale"}) for each in (method, theirs[name])
        )
        assert (method.tune.kind, toy_loss) == (theirs[name].tune.kind, their_loss)
        assert (method.soup, method.members) == (theirs[name].soup, theirs[name].members)
    shown, known = (loaded(demo(group)).finetune.methods for group in (None, "core"))
    assert shown == {name: known[name] for name in ("coop", "coop_diverse")}


# ------------------------------------------------------------------------------------------------------------ own


def test_a_folder_of_train_and_test_is_the_source(tmp_path: Path, tiny_encoder_files: dict[str, str]) -> None:
    root = write_image_folder(tmp_path / "my pets", splits={"train": 5, "test": 2}, classes=COLOURS)
    params = loaded(of_photos(root))
    assert params.source == "my_pets"
    assert params.datasets["my_pets"].root == str(root)
    assert params.fewshot.shots == 16  # or as many as a class has
    assert params.datasets["my_pets"].test_fraction is None
    assert params.encoder.watch == "data/nothing_to_watch.txt"
    assert params.finetune.methods == {}
    weights = tiny_encoder_files["pretrained"]
    assert loaded(of_photos(root, pretrained=str(weights))).encoder.watch == weights


def test_other_folders_are_targets_by_their_classes(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "photo", splits={"train": 20, "test": 1}, classes=COLOURS)
    write_image_folder(tmp_path / "art", splits={"test": 1}, classes=COLOURS)
    write_image_folder(tmp_path / "other", splits={"val": 1}, classes=OTHER)
    params = loaded(of_photos(tmp_path))
    roles = {name: dataset.role for name, dataset in params.datasets.items()}
    assert roles == {"photo": "source", "art": "dg", "other": "xd"}
    splits = {name: (dataset.test_split, dataset.test_fraction) for name, dataset in params.datasets.items()}
    assert splits == {"photo": ("test", None), "art": ("test", None), "other": ("val", None)}
    assert all(dataset.verify and dataset.watch == dataset.root for dataset in params.datasets.values())


def test_folders_that_make_no_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="nowhere does not exist or is not a folder"):
        of_photos(tmp_path / "nowhere")
    for splits, found in (({"test": 1}, "none"), ({"train": 1}, "2: a, b")):
        for name in ("a", "b"):
            write_image_folder(tmp_path / "two" / name, splits=splits, classes=COLOURS)
        with pytest.raises(DataError, match=rf"or folders of which exactly one has train/ \(found {found}\)"):
            of_photos(tmp_path / "two")


def test_a_folder_without_a_split_is_a_source_with_a_test_fraction(in_tmp: Path) -> None:
    root = write_image_folder(Path("all"), splits={"x": 30}, classes=COLOURS) / "x"
    params = loaded(of_photos(root))
    assert (params.source, params.datasets["x"].test_fraction) == ("x", 0.5)
    assert loaded(of_photos(root, test_fraction=0.3)).datasets["x"].test_fraction == 0.3
    with pytest.raises(ParamsError, match=r"test_fraction: 30"):
        of_photos(root, test_fraction=30)


# -------------------------------------------------------------------------------------------------------- in place


def test_files_are_replaced_only_with_force(in_tmp: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    run_git(Path(), "init", "-q")
    Path("reports").mkdir()
    Path("reports/metrics.json").write_text('{"mine": 1}')
    edited = template("demo").replace("shots: 16", "shots: 8")
    assert edited != template("demo")
    Path("params.yaml").write_text(edited)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "mine"], check=True)
    write_image_folder(Path("photos"), splits={"train": 3, "test": 1}, classes=COLOURS)
    for name, options in (("demo", []), ("demo", ["--methods", "all"]), ("own", ["--images", "photos"])):
        code, _, errors = run("profile", name, *options, "--out", "params.yaml")
        assert (code, Path("params.yaml").read_text()) == (1, edited)
        assert "--out params.yaml exists already; give another name, or --force" in errors
    assert run("profile", "own", "--images", "photos", "--out", "params.yaml", "--force")[0] == 0
    assert "photos" in Path("params.yaml").read_text()
    assert Path("reports/metrics.json").read_text() == '{"mine": 1}'  # committed, and the user's own
    assert run("profile", "demo", "--out", "params.yaml", "--force")[0] == 0
    assert run("profile", "demo", "--out", "params.yaml")[0] == 0  # the toy world's, as in every clone


def test_images_below_the_pipeline_are_kept_out_of_git_once(in_tmp: Path) -> None:
    run_git(Path(), "init", "-q")
    Path(".gitignore").write_text("/artifacts/")
    for name, splits in (("photo", {"train": 3, "test": 1}), ("sketch", {"test": 1})):
        write_image_folder(Path("my photos") / name, splits=splits, classes=COLOURS)
    text = of_photos("my photos")
    assert write(text, out=Path("params.yaml")) == [
        ".gitignore names /my photos/photo/, /my photos/sketch/: images stay out of git"
    ]
    assert Path(".gitignore").read_text() == "/artifacts/\n/my photos/photo/\n/my photos/sketch/\n"
    assert write(text, out=Path("params.yaml")) == []
    subprocess.run(["git", "add", "--force", "my photos"], check=True)
    Path(".gitignore").unlink()
    assert write(text, out=Path("params.yaml")) == []  # git holds them already: the user's own choice


def test_a_profile_is_written_whole_or_not_at_all(in_tmp: Path) -> None:
    for wrong in (("own", "--images", "nowhere"), ("paper", "--data-root", "/data")):  # no descriptors
        assert run("profile", *wrong, "--out", "params.yaml")[0] == 1
        assert not Path("params.yaml").exists()
    code, printed, errors = run("profile", "demo", "--out", "params.yaml")
    assert (code, printed) == (0, "")
    assert errors.startswith("wrote params.yaml; next: wsoup check")
    assert Path("params.yaml").read_text() == run("profile", "demo")[1]


def test_class_names_are_proposed_or_read_from_a_file(in_tmp: Path) -> None:
    classes = {"AnnualCrop": (200, 30, 30), "car_side": (30, 180, 40)}
    write_image_folder(Path("photos"), splits={"train": 2, "test": 1}, classes=classes)
    code, printed, errors = run("profile", "own", "--images", "photos")
    assert code == 0, errors
    assert "class names that may read better: AnnualCrop -> annual crop; put them into a file" in errors
    Path("names.txt").write_text("AnnualCrop\tfield\ncar_side\tcar\n")
    code, printed, errors = run("profile", "own", "--images", "photos", "--classes", "names.txt")
    assert code == 0, errors
    assert "may read better" not in errors
    assert safe_load(printed)["datasets"]["photos"]["class_names"] == str(Path("names.txt").resolve())
    code, printed, errors = run("profile", "own", "--images", "photos", "--out", "params.yaml")
    assert code == 0, errors
    assert "classes are named AnnualCrop -> annual crop; class_names.txt has all names" in errors
    assert Path("class_names.txt").read_text() == "AnnualCrop\tannual crop\ncar_side\tcar side\n"
    named = safe_load(Path("params.yaml").read_text())["datasets"]["photos"]["class_names"]
    assert named == "class_names.txt", "which lies beside params.yaml"
    as_in_try = look("photos", shots=2, seed=1, template="a {}.", classes=None).class_names
    assert folder.read("photos", class_names=named).class_names == as_in_try == ["annual crop", "car side"]
    Path("class_names.txt").write_text("AnnualCrop\tfield\ncar_side\tcar\n")
    errors = run("profile", "own", "--images", "photos", "--out", "params.yaml")[2]
    assert "the file of class names class_names.txt exists already" in errors
    Path("names.txt").write_text("AnnualCrop\tfield\n")
    assert (
        "has no line for folder 'car_side'" in run("profile", "own", "--images", "photos", "--classes", "names.txt")[2]
    )


def test_a_folder_that_is_missing_is_named_first(in_tmp):
    code, _, errors = run("profile", "own", "--images", "nowhere")
    assert (code, errors) == (
        1,
        "error: --images nowhere is not a folder; name one of <class>/<image>, or with train/ and test/\n",
    )
    code, _, errors = run("profile", "paper", "--data-root", "/nope")
    assert code == 1
    assert errors.startswith("error: --data-root /nope is not a folder; name the one with CoOp's dataset folders")


def test_cupls_folder_makes_its_row_for_every_dataset_that_it_has(in_tmp) -> None:
    """ImageNet's file is also that of its shifts; a file of pairs beside a file is taken with it."""
    folder = Path("gpt/cupl")
    folder.mkdir(parents=True)
    for name in ("imagenet_prompts_full.json", "cars_prompts_full.json", "cars_prompts_full.names.txt"):
        (folder / name).write_text("{}")
    text = Paper("/data", gpt_descriptors="gpt", sentences="gpt/cupl").text()
    datasets = safe_load(text)["datasets"]
    given = {name: dataset["sentences"] for name, dataset in datasets.items() if "sentences" in dataset}
    assert given.pop("stanford_cars") == "gpt/cupl/cars_prompts_full.json"
    assert set(given.values()) == {"gpt/cupl/imagenet_prompts_full.json"}
    assert set(given) == {"imagenet", "imagenetv2", "imagenet_sketch", "imagenet_a", "imagenet_r"}
    assert datasets["stanford_cars"]["names"] == "gpt/cupl/cars_prompts_full.names.txt"
    assert "names" not in datasets["imagenet"]
    with pytest.raises(ParamsError, match="--sentences elsewhere must lie in the folder of --gpt-descriptors"):
        Paper("/data", gpt_descriptors="gpt", sentences="elsewhere").text()
    with pytest.raises(ParamsError, match="has none of CuPL's files, such as cars_prompts_full"):
        Paper("/data", sentences="gpt").text()
