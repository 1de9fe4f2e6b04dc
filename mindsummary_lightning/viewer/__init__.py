"""A web server that feeds MindInsight's front end from the run directories themselves."""
