"""Deferred imports change nothing but the time; each fact in its own process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

FACTS = {
    "a model with a timm tower is built as usual": """
        import wsoup.towers.encoder
        import open_clip
        vision = {"timm_model_name": "test_vit", "image_size": 160}
        model = open_clip.CLIP(8, vision, {"layers": 1, "width": 16, "heads": 2})
        import open_clip.timm_model
        assert type(model.visual) is open_clip.timm_model.TimmModel is open_clip.model.TimmModel
    """,
    "an encoder's images and texts need neither the compiler nor timm nor transformers": """
        import sys
        import torch
        from wsoup.texts.encoder import PromptEncoder
        from wsoup.towers.models import random_model
        model, tokenizer = random_model("ViT-S-32-alt", seed=0)
        PromptEncoder(model, tokenizer, device=torch.device("cpu")).encode(["a cat"])
        model.encode_image(torch.zeros(1, 3, 224, 224))
        heavy = ("timm", "sympy", "torch._dynamo", "torch._inductor", "open_clip.timm_model", "transformers")
        assert not [name for name in heavy if name in sys.modules]
    """,
    "roi_align calls the real function": """
        import wsoup.towers.encoder
        import torch
        from torchvision.ops import roi_align as exported
        from torchvision.ops.roi_align import is_compile_supported, roi_align
        torch.use_deterministic_algorithms(True)  # asks for it
        image, boxes = torch.arange(16.0).view(1, 1, 4, 4), [torch.tensor([[0.0, 0.0, 4.0, 4.0]])]
        assert roi_align(image, boxes, 2).shape == (1, 1, 2, 2)
        assert (is_compile_supported("cpu"), is_compile_supported("meta")) == (True, False)
        import torch._dynamo.utils
        assert torch._dynamo.utils.__file__
    """,
    "captions are written with the classes of transformers, if it is installed": """
        import importlib.util
        import wsoup.towers.encoder
        from open_clip import coca_model
        installed = importlib.util.find_spec("transformers") is not None
        assert coca_model._has_transformers == installed
        if installed:
            made = coca_model.LogitsProcessorList([coca_model.GENERATION_TYPES["top_k"](2)])
            import transformers
            assert type(made) is coca_model.LogitsProcessorList is transformers.LogitsProcessorList
            assert type(made[0]) is transformers.TopKLogitsWarper
            assert transformers.__version__
    """,
    "another name loads the real module at once": """
        from wsoup.towers.library import deferring
        import torch
        with deferring():
            from torch._dynamo.utils import counters, is_compile_supported
        import torch._dynamo.utils
        assert torch._dynamo.utils.counters is counters
        with deferring():  # a loaded module is not touched
            import torch._dynamo.utils
            assert torch._dynamo.utils.__file__
    """,
    "the package of a deferred module may be imported inside": """
        from wsoup.towers.library import deferring
        import torch
        with deferring():
            import torch._dynamo
        import torch._dynamo.utils
        assert torch._dynamo.utils.__file__
        assert torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1)) == 1
    """,
    "a failing import leaves nothing behind": """
        import sys
        from importlib.util import find_spec
        from wsoup.towers.library import DEFERRED, deferring
        installed = {name for name in DEFERRED if find_spec(name.partition(".")[0])}
        assert installed >= set(DEFERRED) - {"transformers"}
        try:
            with deferring():
                assert installed <= set(sys.modules)
                raise ImportError
        except ImportError:
            assert not set(DEFERRED) & set(sys.modules)
    """,
}


FORKS = """
import os, sys, traceback
for i, (name, fact) in enumerate(FACTS.items()):
    if i == 1:
        import torch
        import wsoup.towers.encoder
    child = os.fork()
    if not child:
        try:
            exec(compile(fact, name, "exec"), {"__name__": "__main__"})
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        print(name, flush=True)
"""
"""Runs each fact in a process of its own.

For the first, wsoup imports torch; the others share the imports of a process in which torch was there before.
"""


def test_that_each_fact_holds():
    facts = {name: textwrap.dedent(fact) for name, fact in FACTS.items()}
    ran = subprocess.run([sys.executable, "-c", f"FACTS = {facts!r}\n{FORKS}"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, []), ran.stderr
