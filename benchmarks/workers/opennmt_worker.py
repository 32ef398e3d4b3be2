"""OpenNMT-py's own translator on ready tokens: `opennmt_worker.py CHECKPOINT.pt [MARK]`.

MARK: what the model expects after a source sentence, if anything.

Its checkpoints hold an argparse Namespace, which torch refuses to load unless told that it may.
"""

import os
import sys
import tempfile

import torch

load = torch.load
torch.load = lambda *args, **kwargs: load(*args, **{**kwargs, "weights_only": False})

from onmt.bin.translate import _get_parser  # noqa: E402
from onmt.inference_engine import InferenceEnginePY  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402
from serve import serve  # noqa: E402

_, checkpoint, *marks = sys.argv
engines = {}


def engine(beam):
    if beam not in engines:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as none:
            options = ["-model", checkpoint, "-src", none.name, "-beam_size", str(beam), "-gpu", "-1"]
            options += ["-batch_size", "64", "-world_size", "0", "-report_time", "-output", os.devnull]
            chosen = _get_parser().parse_args(options)
            ArgumentParser.validate_translate_opts(chosen)  # as its command does
            ArgumentParser._get_all_transform_translate(chosen)
            ArgumentParser._validate_transforms_opts(chosen)
            ArgumentParser.validate_translate_opts_dynamic(chosen)
            engines[beam] = InferenceEnginePY(chosen)
    return engines[beam]


def translate(texts, beam):
    _, outputs = engine(beam).infer_list([" ".join([text, *marks]) for text in texts])
    return [output[0] for output in outputs]


serve(translate)
