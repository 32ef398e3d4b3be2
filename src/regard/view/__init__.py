"""Seeing what a model attends to: recorded weights as a page, an SVG, a notebook cell or a terminal picture."""
