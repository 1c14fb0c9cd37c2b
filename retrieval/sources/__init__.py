"""Files and folders to Documents."""
