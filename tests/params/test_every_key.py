"""Every key of params.yaml is read by something: one that is only declared would change nothing, without a word."""

from __future__ import annotations

from half_done import is_read, sections, unread_keys


def test_every_key_of_inputs_is_read() -> None:
    assert not unread_keys("params"), "\n".join(unread_keys("params"))


def test_a_key_that_nothing_reads_is_found() -> None:
    """Reading it of `self` in another class, or in a validator, is not reading it."""
    assert {"DatasetParams", "EncoderParams", "FewshotParams"} <= sections("params").keys()
    assert is_read("shots", classes={"FewshotParams"})
    assert not is_read("balanced_by_colour", classes={"FewshotParams"})
    assert is_read("crashes", classes={"_Pool"})
    assert not is_read("crashes", classes={"FewshotParams"})


def test_reading_a_key_of_one_section_does_not_read_that_of_another() -> None:
    """Of arguments, of fields of these, of what a mapping holds, and of what a pattern matches."""
    for key, reader, other in (
        ("margin", "CrossEntropyLoss", "ProlipLoss"),
        ("methods", "FinetuneParams", "ReportParams"),
        ("period", "WordPoolParams", "SurveyParams"),
        ("rank", "LoraTune", "VisualPromptTune"),
        ("words", "CandidatesParams", "MethodParams"),
    ):
        assert is_read(key, classes={reader}), key
        assert not is_read(key, classes={other}), key
