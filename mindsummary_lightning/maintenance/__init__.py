"""Looking after run directories: what is wrong with their files, and saving what damage has left whole."""
