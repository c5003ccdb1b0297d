"""`wsoup compare`: what changed between two revisions, experiments or the workspace."""
