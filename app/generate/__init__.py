"""Query and sections to Answer: by Claude with citations, or by quoting the sections."""
