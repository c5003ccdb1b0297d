"""What `import wsoup` offers: soups, images, accuracy, classify and scikit-learn estimators."""
