"""Ways out of and into the summary format."""
