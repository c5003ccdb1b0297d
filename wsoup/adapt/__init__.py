"""Adaptation: class texts and a pile of unlabelled images make another classifier, or the texts' own answer stays."""
