"""wsoup: descriptor soups and word soups for CLIP-style models (arXiv 2311.13612).

    features = wsoup.encode_images(paths, model=model, preprocess=preprocess)
    soup = wsoup.word_soup(features, labels, class_names=names, model=model, tokenizer=tokenizer, seed=1)
    classifier = soup.classifier(class_names=names, model=model, tokenizer=tokenizer)

Names are loaded on first use, so that `import wsoup` costs next to nothing.
"""

from wsoup.runtime import threads

threads.prepare()  # before anything imports torch
__version__ = "0.3.0"

_MODULES = {
    "Accuracy": "wsoup.api.accuracy",
    "Head": "wsoup.heads.head",
    "PromptEncoder": "wsoup.texts.encoder",
    "Soup": "wsoup.api.soups",
    "WsoupError": "wsoup.base.errors",
    "adapt": "wsoup.photos.adaptation",
    "common_words": "wsoup.api.soups",
    "descriptor_soup": "wsoup.api.soups",
    "encode_images": "wsoup.api.images",
    "fit_head": "wsoup.api.heads",
    "from_transformers": "wsoup.api.transformers",
    "score_texts": "wsoup.api.soups",
    "template_soup": "wsoup.api.soups",
    "word_soup": "wsoup.api.soups",
    "zero_shot_accuracy": "wsoup.api.accuracy",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'wsoup' has no attribute {name!r}")
    return globals().setdefault(name, getattr(__import__(_MODULES[name], fromlist=[name]), name))


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
