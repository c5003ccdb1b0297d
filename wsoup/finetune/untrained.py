"""Settings that leave a part of a method without a single iteration or image.

Nothing fails where a share of the iterations rounds to none: what it was to train would keep its initial values, and
the method would be another than its name says.
"""

from collections.abc import Iterator

from wsoup.base.number_of import number_of
from wsoup.finetune.loss_params import ProdaLoss
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.tune_params import SoftDescriptorsTune


def untrained(finetune: FinetuneParams, *, shots: int) -> Iterator[str]:
    """For each such setting a line: its key, its value, how many there are to share, and what to change.

    Args:
        finetune: the section.
        shots: few-shot images of each class.
    """
    for name, method in finetune.methods.items():
        key = f"finetune.methods.{name}"
        iterations = method.iterations
        from_key = f"{key}.iterations"
        if iterations is None:
            iterations = finetune.iterations
            from_key = "finetune.iterations"
        for problem in _of_method(method, iterations=iterations, from_key=from_key):
            yield f"{key}.{problem}"
        if method.select is not None and shots == 1:
            yield (
                f"{key}.select: half of each class's few-shot images are held out to choose a rate, and of 1 "
                "(fewshot.shots) none would be; take 2 or more, or leave select out"
            )


def _of_method(method: MethodParams, *, iterations: int, from_key: str) -> Iterator[str]:
    """Problems of one method, from its keys on."""
    counted = f"{number_of(iterations, 'iteration')} ({from_key})"
    shortest = _shortest_turn(method, iterations=iterations)
    if shortest == 0:
        yield f"tune.{_not_once(method, iterations=iterations, counted=counted)}"
    elif method.schedule is not None and method.schedule.warmup is not None:
        # As `wsoup.finetune.schedule` counts parts: the last one of a turn, from 0.
        parts = method.schedule.parts or shortest
        last = (shortest - 1) * parts // shortest
        n_warm = method.schedule.warmup.parts
        if n_warm > last:
            yield (
                f"schedule.warmup.parts: {n_warm} (of {parts}) leaves none of {counted} to the method's own "
                "learning_rate; lower it"
            )


def _shortest_turn(method: MethodParams, *, iterations: int) -> int:
    """Iterations of the stage of a training, or of the soft descriptor, that has fewest; else of all of it."""
    share = method.tune.share_of_towers
    if share < 1:
        # Rounded down as in `wsoup.finetune.train`, so that the second stage always has one.
        first = int(iterations * share)
        return min(first, iterations - first)
    if isinstance(method.tune, SoftDescriptorsTune) and not isinstance(method.loss, ProdaLoss):
        return iterations // method.tune.members
    return iterations


def _not_once(method: MethodParams, *, iterations: int, counted: str) -> str:
    """What has no iteration, from its key under `tune` on."""
    tune = method.tune
    if isinstance(tune, SoftDescriptorsTune):
        return (
            f"members: {tune.members} soft descriptors are trained one after the other in {counted}, so "
            f"{tune.members - iterations} of them would not be trained; lower members, or raise the iterations"
        )
    return (
        f"first_stage: {tune.share_of_towers:g} of {counted} is less than one, so no norm would be trained; raise one "
        "of the two"
    )
