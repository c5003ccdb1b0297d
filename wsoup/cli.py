"""The command line: each command is a thin call on the library. Results on stdout, errors in one line on stderr.

Heavy modules are imported where a command needs them, so that ``wsoup --help`` answers at once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wsoup.artifacts import Artifacts
from wsoup.cli_soups import classify_command, soup_app
from wsoup.errors import ParamsError, WsoupError, not_installed, one_line, storage_error
from wsoup.runtime.streams import print_anything

app = typer.Typer(
    help="Descriptor soups and word soups for CLIP-style models. The pipeline itself runs with `dvc repro`.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
profile_app = typer.Typer(help="Print a params.yaml to begin with.", no_args_is_help=True)
data_app = typer.Typer(help="Look over the datasets of params.yaml.", no_args_is_help=True)
bench_app = typer.Typer(help="Will this machine do? Ours beside the plain way, in one run.", no_args_is_help=True)
verify_app = typer.Typer(help="Hold a run against answers that are known.", no_args_is_help=True)
for name, group in {
    "profile": profile_app,
    "data": data_app,
    "soup": soup_app,
    "bench": bench_app,
    "verify": verify_app,
}.items():
    app.add_typer(group, name=name)
app.command("classify")(classify_command)

ParamsFile = Annotated[Path, typer.Option("--params", help="The params file.")]
Model = Annotated[str, typer.Option(help="An open_clip model; its weights are random.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1.")]
Precision = Annotated[str, typer.Option(help="fp32, bf16, fp16 (autocast).")]
GptDescriptors = Annotated[
    str | None, typer.Option(help="Folder of classification-by-description's descriptors_*.json.")
]
WithoutDescriptors = Annotated[
    bool, typer.Option("--without-descriptors", help="Leave out the rows that need descriptors.")
]
MethodsGroup = Annotated[
    str, typer.Option("--methods", help="core, few-shot, diversity, parameter-efficiency or all: what is finetuned.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def main() -> None:
    """Entry point: exit code 0 good, 1 a WsoupError, 2 a usage error."""
    print_anything()
    try:
        app()
    except WsoupError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        raise SystemExit(1) from None
    except OSError as error:
        print(f"error: {storage_error(error, path=Path.cwd())}", file=sys.stderr)
        raise SystemExit(1) from None
    except ModuleNotFoundError as error:
        print(f"error: {not_installed(error)}", file=sys.stderr)
        raise SystemExit(1) from None


# -------------------------------------------------------------------------------------------------- init, profile


@app.command("init")
def init_command(folder: Annotated[Path, typer.Argument(help="A new folder, or one made by `wsoup init`.")]) -> None:
    """Make a pipeline folder: dvc.yaml, params.yaml (the toy world), stages and data; or bring one up to date.

    Example: wsoup init soups && cd soups && dvc repro
    """
    from wsoup import workspace

    print("\n".join(workspace.create(folder)))


@profile_app.command("demo")
def profile_demo() -> None:
    """The toy world: everything drawn and trained by the pipeline itself.

    Example: wsoup profile demo > params.yaml
    """
    from wsoup.profiles import toy

    print(toy.demo(), end="")


@profile_app.command("methods")
def profile_methods(methods: MethodsGroup = "all") -> None:
    """The toy world with every finetuned method and ablation.

    Example: wsoup profile methods > params.yaml
    """
    from wsoup.profiles import toy

    print(toy.methods(methods), end="")


@profile_app.command("base_to_new")
def profile_base_to_new(
    dataset: Annotated[str | None, typer.Option(help="One of the paper's datasets; the toy world without.")] = None,
    data_root: Annotated[str | None, typer.Option(help="The folder that holds CoOp's folders.")] = None,
    gpt_descriptors: GptDescriptors = None,
    without_descriptors: WithoutDescriptors = False,
) -> None:
    """Base-to-new generalisation: half of a dataset's classes is the source, the other half the target.

    Example: wsoup profile base_to_new --dataset dtd --data-root /data --gpt-descriptors /data/gpt > params.yaml
    """
    from wsoup.profiles.paper import base_to_new

    text = base_to_new(
        dataset, data_root=data_root, gpt_descriptors=gpt_descriptors, without_descriptors=without_descriptors
    )
    print(text, end="")


@profile_app.command("paper")
def profile_paper(
    data_root: Annotated[str | None, typer.Option(help="The folder that holds CoOp's folders.")] = None,
    gpt_descriptors: GptDescriptors = None,
    without_descriptors: WithoutDescriptors = False,
    methods: MethodsGroup = "core",
    encoder: Annotated[str, typer.Option(help="A model of the paper: ViT-B-32, ViT-L-14, ...")] = "ViT-B-16",
    source: Annotated[str, typer.Option(help="The source: imagenet, or another with training images.")] = "imagenet",
    fewshot_pickles: Annotated[
        str | None, typer.Option(help="Folder with the source's shot_16-seed_1.pkl ..., as CoOp's users have them.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="Instead: which rows of this table of the paper --params fills; or all.")
    ] = None,
    params: ParamsFile = Path("params.yaml"),
) -> None:
    """The paper: 15 datasets, 3 seeds, 16 shots, ViT-B-16 with OpenAI's weights.

    Example: wsoup profile paper --data-root /data --gpt-descriptors /data/gpt --methods few-shot > params.yaml
    """
    from wsoup.profiles.paper import Choices, paper

    if table is not None:
        from wsoup.params.whole import load_params
        from wsoup.profiles.coverage import coverage, shown

        print(shown(coverage(load_params(params), table=table)), end="")
        return
    if data_root is None:
        raise ParamsError("profile paper needs --data-root, the folder that holds CoOp's folders")
    choices = Choices(
        data_root,
        gpt_descriptors=gpt_descriptors,
        without_descriptors=without_descriptors,
        methods=methods,
        encoder=encoder,
        source=source,
        fewshot_pickles=fewshot_pickles,
    )
    print(paper(choices), end="")


@profile_app.command("own")
def profile_own(
    images: Annotated[str, typer.Option(help="train/<class>/ and test/<class>/, or a folder of such folders.")],
    model: Annotated[
        str | None, typer.Option(help="An open_clip model, hf-hub:owner/name or local-dir:FOLDER; ViT-B-32.")
    ] = None,
    pretrained: Annotated[str, typer.Option(help="A tag of open_clip, or a weights file.")] = "openai",
    config: Annotated[str | None, typer.Option(help="A local open_clip JSON config.")] = None,
    image_mean: Annotated[tuple[float, float, float] | None, typer.Option(help="Of a local model.")] = None,
    image_std: Annotated[tuple[float, float, float] | None, typer.Option(help="Of a local model.")] = None,
    interpolation: Annotated[str | None, typer.Option(help="bicubic or bilinear, of a local model.")] = None,
    quick_gelu: Annotated[bool, typer.Option("--quick-gelu", help="Of a local model trained with it.")] = False,
    template: Annotated[str, typer.Option(help="Prompt template with one {}.")] = "a photo of a {}.",
    shots: Annotated[int | None, typer.Option(help="Training images per class and seed; 16 or what there is.")] = None,
    descriptors: Annotated[str | None, typer.Option(help="Your own pool: text, or GPT-descriptor JSON.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write, whole or not at all; printed without.")] = None,
) -> None:
    """Your own images: source and targets from a folder.

    Example: wsoup profile own --images photos --out params.yaml
    """
    from wsoup.profiles.own import own

    encoder = {
        "model": model or (Path(config).stem if config else "ViT-B-32"),
        "pretrained": pretrained,
        "config": config,
        "image_mean": list(image_mean) if image_mean else None,
        "image_std": list(image_std) if image_std else None,
        "interpolation": interpolation,
        "quick_gelu": quick_gelu or None,
    }
    encoder = {key: value for key, value in encoder.items() if value is not None}
    text = own(images=images, encoder=encoder, template=template, shots=shots, descriptors=descriptors)
    if out is None:
        print(text, end="")
        return
    from wsoup.store import replacing

    with replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------------------------------------------------- data


@app.command("check")
@data_app.command("check")
def check_command(
    params: ParamsFile = Path("params.yaml"),
    manifests: Annotated[Path, typer.Option(help="Manifests of the last run.")] = Path("artifacts/manifests"),
    deep: Annotated[bool, typer.Option("--deep", help="Decode every image.")] = False,
) -> None:
    """Encoder and datasets of params.yaml: what is there, what is not, what can be trained; exit code 1 if faulty.

    Example: wsoup check --deep
    """
    from wsoup import datacheck, preflight
    from wsoup.params.whole import load_params

    found = load_params(params)
    decode: Any = None
    if deep:
        from wsoup.images.decode import load_rgb

        decode = load_rgb
    from wsoup.encodercheck import check_encoder

    console = Console()
    encoder = check_encoder(found)
    for kind, texts in (("", encoder.facts), ("warning: ", encoder.warnings), ("error: ", encoder.problems)):
        for text in texts:
            console.print(f"{kind}encoder: {text}", highlight=False, markup=False, soft_wrap=True)
    findings = datacheck.check(found, manifests=manifests, decode=decode, imagenet_names=_imagenet_names)
    datacheck.show(findings, console)
    others = list(dict.fromkeys(one_line(problem) for problem in preflight.problems(found)))
    for problem in others:
        print(f"error: {problem}")
    if encoder.problems or others or any(finding.problems for finding in findings):
        raise typer.Exit(1)


@data_app.command("layouts")
def data_layouts() -> None:
    """What is expected where: every layout, and the paper's 15 datasets in CoOp's folders."""
    from wsoup.datacheck import show_layouts

    show_layouts(Console())


def _imagenet_names() -> list[str]:
    from wsoup.towers import imagenet_class_names

    return imagenet_class_names()


# ---------------------------------------------------------------------------------------------------------- plan


@app.command("plan")
def plan_command(
    params: ParamsFile = Path("params.yaml"),
    change: Annotated[
        list[str] | None, typer.Option("--set-param", "-S", help="A change of params, such as soups.word.k0=50.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Also on: h200, h100, a100, l40s, l4, a10, v100, t4.")] = None,
    count: Annotated[int, typer.Option(help="How many of them.")] = 1,
    candidates: Annotated[int | None, typer.Option(help="As if each pool held so many texts.")] = None,
    images: Annotated[int | None, typer.Option(help="As if there were so many test images.")] = None,
) -> None:
    """Before hours are spent: what runs, what is cached, what it costs, and what breaks first.

    Example: wsoup plan -S soups.word.k0=50 --device h100 --count 8
    """
    from wsoup.plan.show import show
    from wsoup.plan.whole import plan

    found = plan(
        params_file=params, changes=change or [], device=device, count=count, candidates=candidates, images=images
    )
    show(found, Console())


# ------------------------------------------------------------------------------------------------------- results


@app.command("results")
def results_command(params: ParamsFile = Path("params.yaml")) -> None:
    """The last run: per cent on the source, means over XD and DG, every target with its gain, and the verdict."""
    from wsoup.params.whole import load_params
    from wsoup.report.judgement import load_judgement, sentence
    from wsoup.report.results import load_results
    from wsoup.report.terminal import per_target, summary, verdicts

    found = load_params(params)
    results = load_results(
        Artifacts().results,
        datasets=found.datasets,
        soups=list(found.soups),
        methods=list(found.finetune.methods),
        evaluate=found.evaluate,
        sections=found.model_dump(mode="json", by_alias=True),
    )
    print(summary(results), per_target(results), sep="\n\n", end="\n\n")
    judgement = load_judgement(
        Artifacts().results, soups=found.soups, roles=results.roles, confidence=found.report.confidence
    )
    print(verdicts(judgement), sentence(judgement), sep="\n\n")


@app.command("report")
def report_command(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/index.html"),
    params: ParamsFile = Path("params.yaml"),
    title: Annotated[str | None, typer.Option(help="The page's heading.")] = None,
) -> None:
    """Write one self-contained page: what was found, tables, figures, soups, images that a soup turned.

    Example: wsoup report --out reports/index.html --title "Photos of my garden"
    """
    from wsoup.report.page import TITLE, write_page

    print(write_page(out, params_file=params, title=title or TITLE))


@app.command("compare")
def compare_command(
    first: Annotated[str, typer.Argument(metavar="REV1", help="A git revision or a DVC experiment.")],
    second: Annotated[str, typer.Argument(metavar="[REV2]", help="Another; the workspace if left out.")] = "workspace",
    row: Annotated[str, typer.Option(help="A row of reports/metrics.json, or all.")] = "word_soup",
) -> None:
    """Two revisions: params that differ, and accuracy per dataset with the paired interval.

    Example: wsoup compare HEAD
    """
    from wsoup.report.compare import compare

    params, accuracies = compare(first, second)
    lines = [line for line in accuracies.rows if row in ("all", line["row"])]
    if accuracies.rows and not lines:
        known = ", ".join(dict.fromkeys(line["row"] for line in accuracies.rows))
        raise ParamsError(f"--row {row!r} is in neither revision; there are {known}, and all")
    _print_table(params)
    _print_table(replace(accuracies, rows=lines))


@app.command("sweep")
def sweep_command(
    param: Annotated[str, typer.Argument(help="A dotted key of params.yaml, such as fewshot.shots.")],
    row: Annotated[
        list[str] | None,
        typer.Option(help="A row of reports/metrics.json, also VARIANT/ROW; several are given one by one (word_soup)"),
    ] = None,
    variant: Annotated[str, typer.Option(help="pretrained, or a finetuned method.")] = "pretrained",
    figure: Annotated[Path | None, typer.Option(help="Also draw it: an SVG, or its Vega-Lite JSON.")] = None,
    revisions: Annotated[list[str] | None, typer.Argument(help="Which; all experiments if left out.")] = None,
) -> None:
    """Rows over many experiments against one param, and their figure.

    Example: wsoup sweep fewshot.shots --row class_name --row word_soup --figure shots.svg
    """
    from wsoup.report.sweep import check_figure, sweep, write_figure

    if figure is not None:
        check_figure(figure)
    table = sweep(param, rows=row or ["word_soup"], variant=variant, revisions=revisions or [])
    _print_table(table)
    if figure is not None:
        write_figure(figure, table=table, param=param)
        print(figure)


def _print_table(table: Any) -> None:
    """A report's table on the terminal."""
    from wsoup.report.tables import cell, shown_columns

    columns = shown_columns(table.columns)
    drawn = Table(box=None, pad_edge=False, title=table.title, title_justify="left", title_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold", no_wrap=column == "row")  # its names would break in mid-word
    for row in table.rows:
        drawn.add_row(*(cell(row, column) for column in columns))
    console = Console()
    console.print(drawn, highlight=False, markup=False)
    for note in table.notes:
        console.print(note, highlight=False, markup=False)


# -------------------------------------------------------------------------------------------------------- verify


@verify_app.command("paper")
def verify_paper(params: ParamsFile = Path("params.yaml")) -> None:
    """The authors' own searches, scored again: theirs, ours, the difference; exit code 1 where they do not agree.

    Needs the stages embed_train and fewshot, with ViT-B-16 / openai, ImageNet and their splits; what stages score and
    soup made is compared, too, where it is there.

    Example: wsoup verify paper
    """
    from wsoup import verify
    from wsoup.params.whole import load_params

    found = load_params(params)
    checked, agreements = verify.of_run(found, artifacts=Artifacts())
    within = verify.tolerance(found.encoder.interpolation)
    table = Table(box=None, pad_edge=False)
    for title in ("soup", "seed", "text"):
        table.add_column(title, overflow="fold")
    for title in ("theirs", "ours", "difference"):
        table.add_column(title, justify="right", no_wrap=True)
    for line in checked:
        step, mark = line.step, "" if abs(line.difference) <= within else " !"
        figures = (f"{step.theirs:.3f}", f"{line.ours:.3f}", f"{line.difference:+.3f}{mark}")
        table.add_row(step.soup, str(step.seed), escape(step.text), *figures)
    console = Console()
    console.print(table, highlight=False)
    away = sum(abs(line.difference) > within for line in checked)
    console.print(
        f"{len(checked) - away} of {len(checked)} accuracies within {within} points (theirs: half precision, bilinear)",
        highlight=False,
    )
    for agreement in agreements:
        says = f"{'' if agreement.holds else 'does not agree: '}{agreement.says}"
        console.print(says, highlight=False, markup=False, soft_wrap=True)
    if away or not all(agreement.holds for agreement in agreements):
        raise typer.Exit(1)


# --------------------------------------------------------------------------------------------------------- cache


@app.command("cache")
def cache_command(
    prune: Annotated[bool, typer.Option("--prune", help="Remove what no present stage can use.")] = False,
) -> None:
    """What interrupted stages and listed datasets keep in .cache/wsoup, whose it is, and whether it is of use.

    Example: wsoup cache --prune
    """
    from wsoup.cache.look import look
    from wsoup.cache.prune import prune as pruned
    from wsoup.cache.show import show

    if not prune:
        show(look(), Console())
        return
    for line in pruned(look()):
        print(line)


# --------------------------------------------------------------------------------------------------------- bench


@bench_app.command("text")
def bench_text(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    words: Annotated[int, typer.Option(help="Words of the pool.")] = 10_000,
    descriptors: Annotated[Path | None, typer.Option(help="A pool of descriptors, one a line.")] = None,
    rounds: Annotated[int, typer.Option(help="Timings of each way, in turn.")] = 3,
    block: Annotated[int | None, typer.Option(help="Candidates in a round; 32 on a CPU, 128 elsewhere.")] = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="fp32, bf16, fp16 (autocast); several with commas.")] = "fp32",
    as_json: AsJson = False,
) -> None:
    """Scoring a pool: texts through shared prefixes beside encode_text at 77 tokens.

    Example: wsoup bench text --model ViT-B-16 --classes 1000
    """
    from wsoup.bench.text import bench_text as measure
    from wsoup.search import pools

    found = {"words": pools.common_words(words)}
    if descriptors is not None:
        found["descriptors"] = pools.descriptors([descriptors])
    chosen = [_device(device, name.strip()) for name in precision.split(",")]
    where, dtypes = chosen[0][0], [dtype for _, dtype in chosen]
    result = measure(model, pools=found, classes=classes, device=where, dtypes=dtypes, rounds=rounds, block=block)
    _print_result(result, as_json=as_json)


@bench_app.command("search")
def bench_search(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 1000,
    patience: Annotated[int, typer.Option(help="Candidates tried.")] = 250,
    device: Device = "auto",
    precision: Precision = "fp32",
    as_json: AsJson = False,
) -> None:
    """One word chain of Algorithm 2, beside the one-by-one loop at 77 tokens."""
    from wsoup.bench.search import bench_search as measure
    from wsoup.search import pools

    where, dtype = _device(device, precision)
    pool = pools.common_words(patience + 1)
    result = measure(model, words=pool, classes=classes, patience=patience, device=where, dtype=dtype)
    _print_result(result, as_json=as_json)


@bench_app.command("images")
def bench_images(
    model: Model = "ViT-B-16",
    count: Annotated[int, typer.Option(help="Images, drawn for the purpose.")] = 256,
    device: Device = "auto",
    precision: Precision = "fp32",
    as_json: AsJson = False,
) -> None:
    """Decoding, preprocessing and encoding images, beside the plain loop."""
    from wsoup.bench.images import bench_images as measure

    where, dtype = _device(device, precision)
    _print_result(measure(model, count=count, device=where, dtype=dtype), as_json=as_json)


@bench_app.command("train")
def bench_train(
    model: Model = "ViT-B-16",
    classes: Annotated[int, typer.Option(help="How many of ImageNet's class names.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Images in a step.")] = 16,
    repeats: Annotated[int, typer.Option(help="Measured steps of each way, in turn.")] = 3,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """One training step, beside the plain way: 77 tokens and a separate teacher."""
    from wsoup.bench.train import bench_train, render

    where, _ = _device(device, "fp32")
    result = bench_train(model=model, n_classes=classes, batch_size=batch_size, repeats=repeats, device=str(where))
    print(json.dumps(result, indent=2) if as_json else render(result))


def _device(name: str, precision: str) -> tuple[Any, Any]:
    """torch device and autocast dtype."""
    from wsoup.towers import AUTOCAST, choose_device

    if precision not in AUTOCAST:
        raise ParamsError(f"precision {precision!r} must be one of {', '.join(AUTOCAST)}")
    return choose_device(name), AUTOCAST[precision]


def _print_result(result: dict[str, Any], *, as_json: bool) -> None:
    from wsoup.bench.common import table

    if as_json:
        print(json.dumps(result, indent=2))
    else:
        Console().print(table(result), highlight=False)


if __name__ == "__main__":
    main()
