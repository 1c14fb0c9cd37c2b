"""Finding sections: documents to an index, and a query to the sections that answer it."""
