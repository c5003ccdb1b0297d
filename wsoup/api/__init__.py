"""What `import wsoup` offers: soups, image features, heads, accuracy, models of other libraries."""
