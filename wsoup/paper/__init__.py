"""The paper: its tables as data, what is comparable with them and why not, and its authors' counts made again."""
