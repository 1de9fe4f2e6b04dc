"""One step of a port under substitution: every module is judged on the original's values. Knows no framework."""
