"""Regard: `regard_worker.py MODEL ENGINE PRECISION`."""

import sys

from serve import serve

import regard

_, model, engine, precision = sys.argv
loaded = regard.load(model, engine=engine, precision=precision)
serve(lambda texts, beam: loaded.translate(texts, beam=beam))
