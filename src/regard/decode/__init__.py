"""From a model's step to text: greedy search, beam search and a sampler, for every model and for ensembles."""

from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, DecodeState, Hypothesis, Model
from regard.decode.sample import Sampler, sample

__all__ = [
    "Decodable",
    "DecodeOptions",
    "DecodeState",
    "Hypothesis",
    "Model",
    "Sampler",
    "beam_search",
    "greedy",
    "sample",
]
