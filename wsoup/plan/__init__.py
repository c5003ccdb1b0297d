"""What a run will cost, told before it begins: `wsoup plan`. See `steps`."""
