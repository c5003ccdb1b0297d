"""Whatever reads or writes dvc.yaml: a stage's command line, the plan, the cache, pipeline folders."""
