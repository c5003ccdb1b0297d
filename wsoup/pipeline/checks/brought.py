"""Which files DVC may bring, so that they need not be there yet."""

from pathlib import Path

from wsoup.disk.files import read_text


def made_by_dvc(path: str) -> bool:
    """Whether DVC may bring a file: the dvc.yaml of one of its folders names it, or it or a folder has a .dvc file."""
    folders = [part for part in Path(path).parents if part.name]
    for folder in folders:
        pipeline = folder / "dvc.yaml"
        # Looked for in the text, because an output may stand in many forms there; a placeholder may be any name.
        if pipeline.is_file():
            text = read_text(pipeline)
            if "${" in text or Path(path).relative_to(folder).parts[0] in text:
                return True
    return any(part.with_name(f"{part.name}.dvc").is_file() for part in (Path(path), *folders))
