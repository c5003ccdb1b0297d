"""open_clip's standard residual attention block with packed weights, for text towers and image towers.

Pre-norm, LayerScale if any, GELU or QuickGELU; both scales are folded into the weights.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from wsoup.core.linear import Linear

QUICK_GELU = 1.702
"""QuickGELU(x) = x sigmoid(1.702 x) = SiLU(1.702 x) / 1.702; the factor is folded into the weights on both sides."""


class PackedBlock:
    """A residual attention block. The last one, of which only some rows are read, has separate queries."""

    def __init__(self, block: Any, *, dtype: torch.dtype, last: bool) -> None:
        attn = block.attn
        mlp = block.mlp
        weight = attn.in_proj_weight
        bias = attn.in_proj_bias
        width = attn.embed_dim
        self.ln_1 = block.ln_1
        self.ln_2 = block.ln_2
        self.dtype = dtype
        if last:
            self.q = Linear(weight[:width], bias[:width], dtype=dtype)
            self.kv = Linear(weight[width:], bias[width:], dtype=dtype)
        else:
            self.qkv = Linear(weight, bias, dtype=dtype)
        self.act = activation_name(mlp.gelu) or "none"
        scale = QUICK_GELU if self.act == "swish" else 1.0
        self.fc = Linear(mlp.c_fc.weight * scale, mlp.c_fc.bias * scale, dtype=dtype)
        no_scale = weight.new_ones(1)
        gamma_1 = getattr(block.ls_1, "gamma", no_scale)
        gamma_2 = getattr(block.ls_2, "gamma", no_scale)
        out_weight = attn.out_proj.weight * gamma_1[:, None]
        self.out = Linear(out_weight, attn.out_proj.bias * gamma_1, dtype=dtype)
        # QuickGELU's factor is taken back here, from the weights but not from the bias.
        out_scale = gamma_2 / scale
        proj_weight = mlp.c_proj.weight * out_scale[:, None]
        self.proj = Linear(proj_weight, mlp.c_proj.bias * gamma_2, dtype=dtype)

    def normed(self, x: Tensor) -> Tensor:
        """What queries, keys and values are made of: (B, T, width) -> the same shape."""
        return self.ln_1(x).to(self.dtype)

    def after_attention(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The rest of the block, given the heads' values side by side: (B, T, width) each -> the same shape."""
        x = self.out.add_to(x, mixed)
        normed = self.ln_2(x).to(self.dtype)
        hidden = self.fc(normed, act=self.act)
        return self.proj.add_to(x, hidden)


def split_heads(x: Tensor, *, parts: int, heads: int) -> Tensor:
    """(B, T, parts * width) -> (parts, B, heads, T, head size), a view; the parts are some of q, k and v."""
    return x.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4)


def activation_name(module: nn.Module) -> str | None:
    """An activation module's name in fused products, or None if it has none."""
    if isinstance(module, nn.GELU):
        return "gelu_tanh" if module.approximate == "tanh" else "gelu"
    if type(module).__name__ == "QuickGELU":
        return "swish"
    return None


def foreign_block(blocks: Iterable[nn.Module]) -> str | None:
    """The class and the parts of the first block that is not a standard one; None if all are."""
    for block in blocks:
        if not _is_standard(block):
            parts = ", ".join(f"{name} {type(part).__name__}" for name, part in block.named_children())
            return f"{type(block).__name__} ({parts})"
    return None


def _is_standard(block: nn.Module) -> bool:
    """Whether a block has the parts of open_clip's `ResidualAttentionBlock`, whatever its name."""
    children = dict(block.named_children())
    attn = children.get("attn")
    mlp = children.get("mlp")
    # Exact types and all parts: a subclass or one part more may compute something else.
    if set(children) != {"ln_1", "attn", "ls_1", "ln_2", "mlp", "ls_2"} or type(attn) is not nn.MultiheadAttention:
        return False
    is_packed = attn.in_proj_weight is not None and attn.in_proj_bias is not None
    if not is_packed or attn.bias_k is not None or attn.add_zero_attn:
        return False
    if not isinstance(mlp, nn.Sequential):
        return False
    if [name for name, _ in mlp.named_children()] != ["c_fc", "gelu", "c_proj"]:
        return False
    for name in ("c_fc", "c_proj"):
        if type(mlp.get_submodule(name)) is not nn.Linear:
            return False
    for name in ("ls_1", "ls_2"):
        if not isinstance(children[name], nn.Identity) and not hasattr(children[name], "gamma"):
            return False
    return activation_name(mlp.get_submodule("gelu")) is not None
