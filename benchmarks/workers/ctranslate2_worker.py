"""CTranslate2 by itself, on ready tokens (one text is tokens with spaces between):
`ctranslate2_worker.py MODEL PRECISION WORKERS`. All lines in one call: it sorts and cuts them into batches itself."""

import sys

import ctranslate2
from serve import serve

_, model, precision, workers = sys.argv
translator = ctranslate2.Translator(model, compute_type=precision, inter_threads=int(workers), intra_threads=1)


def translate(texts, beam):
    lines = [text.split(" ") for text in texts]
    results = translator.translate_batch(lines, beam_size=beam, max_batch_size=64, batch_type="examples")
    return [" ".join(result.hypotheses[0]) for result in results]


serve(translate)
