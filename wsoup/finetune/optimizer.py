"""SGD for the trained parameters, with a learning rate of their own for text prompts."""

from collections.abc import Mapping

import torch
from torch import nn

from wsoup.finetune.params import FinetuneParams, MethodParams

TEXT_PROMPTS = ("soft_prompt", "deep_prompts", "soft_descriptors")
"""Parameters whose learning rate is multiplied by `prompt_factor`."""


class TwiceSGD(torch.optim.SGD):
    """SGD where the authors' code lists every parameter twice: two steps along one gradient, sharing a momentum buffer.

    In the first step, when there is no buffer yet, both create one and the second is kept.
    """

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient, twice."""
        is_first = not self.state
        super().step()
        if is_first:
            self.state.clear()
        super().step()


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], *, method: MethodParams, shared: FinetuneParams
) -> torch.optim.SGD:
    """The optimizer of parameters by name; text prompts have `prompt_factor` times the learning rate of the others."""
    rate = method.learning_rate
    prompts = [p for name, p in parameters.items() if name.startswith(TEXT_PROMPTS)]
    others = [p for name, p in parameters.items() if not name.startswith(TEXT_PROMPTS)]
    groups = [{"params": prompts, "lr": rate * method.prompt_factor}, {"params": others, "lr": rate}]
    optimizer = torch.optim.SGD
    # Only tuners inside blocks have this key.
    if getattr(method.tune, "opens", "both") == "image_twice":
        optimizer = TwiceSGD
    return optimizer(groups, momentum=shared.momentum, weight_decay=shared.weight_decay)
