"""wsoup: descriptor soups and word soups for CLIP-style models (arXiv 2311.13612).

    features = wsoup.encode_images(paths, model=model, preprocess=preprocess)
    soup = wsoup.word_soup(features, labels, class_names=names, model=model, tokenizer=tokenizer, seed=1)
    classifier = soup.classifier(class_names=names, model=model, tokenizer=tokenizer)

Everything is loaded when it is first used, so that importing wsoup costs next to nothing.
"""

__version__ = "0.3.0"

_PLACES = {
    "Accuracy": "wsoup.api.accuracy",
    "PromptEncoder": "wsoup.texts.encoder",
    "Soup": "wsoup.api.soups",
    "WsoupError": "wsoup.core.errors",
    "common_words": "wsoup.api.soups",
    "descriptor_soup": "wsoup.api.soups",
    "encode_images": "wsoup.api.images",
    "score_texts": "wsoup.api.soups",
    "word_soup": "wsoup.api.soups",
    "zero_shot_accuracy": "wsoup.api.accuracy",
}
__all__ = [*_PLACES]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'wsoup' has no attribute {name!r}")
    module = __import__(_PLACES[name], fromlist=[name])
    return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
