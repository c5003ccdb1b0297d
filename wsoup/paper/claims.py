"""The paper's claims that are numbers of a finished run, with ours beside them."""

from pathlib import Path

from wsoup.disk import store


def better_descriptors(scores: Path) -> str:
    """How many descriptors beat the class name alone on the first seed's few-shot images, beside the paper's number.

    Args:
        scores: the Parquet of scores of pool `descriptors`; an empty text is the class name alone.
    """
    if not scores.exists():
        return f"About 1200 descriptors are better than none: ours is not known, because {scores} is missing"
    lines = store.read_table(scores).to_pylist()
    first_seed = min(line["seed"] for line in lines)
    n_correct = {line["text"]: line["n_correct"] for line in lines if line["seed"] == first_seed}
    class_name = n_correct.pop("", None)
    if class_name is None:
        return f"About 1200 descriptors are better than none: {scores} has no count of the class name alone"
    # A tie is not better, as in the searches, which accept a text only if its count rises.
    n_better = sum(count > class_name for count in n_correct.values())
    return f"Descriptors better than none: paper about 1200 of 4227, ours {n_better} of {len(n_correct)}"
