"""What `import wsoup` offers: features, soups and accuracies of a model in memory, by the pipeline's own functions."""
