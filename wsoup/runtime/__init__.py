"""How a run behaves: its process (`process`), progress bars and executors (`work`, `on_ray`). Decides no result."""
