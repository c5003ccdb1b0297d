"""Results to tables, metrics, plots and one page. Nothing here touches a model: counts in, files out."""
