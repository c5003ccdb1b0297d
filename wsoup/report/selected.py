"""The table of learning rates that were chosen on held-out images of the source (`finetune.methods.<name>.select`)."""

from wsoup.finetune.rates import Tried, best_rate
from wsoup.report.results import Results
from wsoup.report.tables import Table, TableCells


def selected_rates(results: Results) -> Table:
    """Each rate that was tried for a method, with the held-out images that it gets right."""
    rows: list[TableCells] = []
    for method, lines in results.selected.items():
        tried = [Tried(line["learning_rate"], int(line["n_correct"]), int(line["n_images"])) for line in lines]
        chosen = best_rate(tried)
        for each in tried:
            rows.append(
                {
                    "method": method,
                    "learning_rate": f"{each.learning_rate:g}",
                    "held-out images correct": 100 * each.n_correct / each.n_images,
                    "n_correct": each.n_correct,
                    "n_images": each.n_images,
                    "chosen": "yes" if each.learning_rate == chosen else "",
                }
            )
    note = (
        "Per cent; all seeds together. Trained on half of the few-shot images, judged on the other half; then trained "
        "on all with the chosen rate. No test image and no target decides."
    )
    columns = ["method", "learning_rate", "held-out images correct", "n_correct", "n_images", "chosen"]
    return Table("selected_rates", "Learning rates chosen on the source", columns, rows, [note])
