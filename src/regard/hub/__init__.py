"""Import and export of other formats."""
