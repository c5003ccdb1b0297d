"""Results to tables, metrics and plots. Nothing here touches a model: counts in, files out."""
