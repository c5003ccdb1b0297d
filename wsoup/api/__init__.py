"""What `import wsoup` offers: soups, images, accuracy, classify."""
