"""How many tokens go through a text tower at once."""

import torch

CPU_BATCH_TOKENS = 1024
"""In float32: as many as fit a CPU's cache."""
CPU_BATCH_TOKENS_IN_BF16 = 4096
"""Products in bf16 are so fast that starting one counts: these many tokens are 3 to 8 % faster, by CPU."""
GPU_BATCH_TOKENS = 65536
"""As many as keep a GPU busy."""
BYTES_PER_TOKEN = 1 << 17
"""Most memory that one token takes in a forward pass: a small GPU gets smaller batches."""


def default_batch_tokens(device: torch.device, *, in_bf16: bool) -> int:
    """Tokens in one forward pass. On a GPU from its total, not its free memory: results may not depend on that."""
    if device.type != "cuda":
        return CPU_BATCH_TOKENS_IN_BF16 if in_bf16 else CPU_BATCH_TOKENS
    memory = torch.cuda.get_device_properties(device).total_memory
    fitting = memory // (2 * BYTES_PER_TOKEN)  # half of it is for weights and what is kept
    return max(CPU_BATCH_TOKENS, min(GPU_BATCH_TOKENS, fitting))
