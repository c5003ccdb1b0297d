"""How a run behaves: its threads, memory, progress bars, executors (`work`, `on_ray`) and end. Decides no result."""
