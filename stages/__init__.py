"""The stages of the pipeline, one thin script each: ``python stages score words``, or ``dvc repro score@words``."""
