"""One module per page of the front end: from the query of a request to its JSON answer."""
