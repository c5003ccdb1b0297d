"""Where the texts of pools come from: common words, and descriptors that language models wrote."""
