"""params.yaml: one module a section, so that a stage depends on its own sections; `whole` checks the file."""
