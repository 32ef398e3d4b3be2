"""Pairs of sentences from files to batches: formats, checks, token cache, order, known sets."""
