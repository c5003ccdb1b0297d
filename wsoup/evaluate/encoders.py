"""The encoders of the paper's tables."""

from __future__ import annotations

SCALING_ENCODERS = {
    ("ViT-B-32", "openai"): "Open-AI CLIP ViT-B/32",
    ("ViT-L-14", "laion2b_s32b_b82k"): "Open CLIP ViT-L/14",
    ("coca_ViT-L-14", "laion2b_s13b_b90k"): "Open CLIP CoCa-L/14",
    ("ViT-g-14", "laion2b_s34b_b88k"): "Open CLIP ViT-g/14",
}
"""Models of model_scaling.csv with their weights. Neither the paper nor the authors' code (Chris210634/word_soups:
argparse_parameters.py defaults to ViT-B-16 / openai, scripts/ablations/scaling_law.sh takes model and tag as arguments,
README.md names no others) says which weights the last three had: these are open_clip's trained on LAION-2B, and of the
two for ViT-g-14 those that reach the paper's 77.7 on ImageNet."""
ENCODER = ("ViT-B-16", "openai")
"""The encoder of all the paper's other tables."""
ENCODERS = (ENCODER, *SCALING_ENCODERS)
