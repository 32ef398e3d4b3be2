"""Parts that networks are made of; imports torch alone."""
