"""A model that has learned to read becomes the encoder of one that writes (Rothe 2020)."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from regard.bundle import Bundle
from regard.config import Recipe
from regard.errors import UserError
from regard.models import Bert, Transformer
from regard.nn.position import Learned


def with_decoder(reader: Bundle, recipe: Recipe) -> Bundle:
    """A Transformer whose embeddings and encoder are a BERT's, with the decoder that the recipe asks for, as a bundle.

    The reader's shape holds: the recipe gives what it leaves open (decoder_layers, copying, dropouts). Its tokenizer's
    special tokens get the numbers that they have in translation.
    """
    bert = getattr(reader.model, "body", reader.model)
    assert isinstance(bert, Bert)
    tokenizer, order = reader.source.with_our_specials()
    model = Transformer(_shape(bert, recipe, len(tokenizer)))
    _fill(model, bert, order)
    return replace(reader, model=model, name="transformer", task=recipe.task, source=tokenizer, target=tokenizer)


def _shape(bert: Bert, recipe: Recipe, vocabulary: int) -> Any:
    c = bert.config
    taken = {
        "d_model": c.d_model,
        "d_ff": c.d_ff,
        "heads": c.heads,
        "encoder_layers": c.layers,
        "norm": c.norm,
        "norm_eps": c.norm_eps,
        "activation": c.activation,
        "positions": "learned",
        "max_positions": c.max_positions,
        "attention_bias": True,
        "scale_embeddings": False,  # nor would the output be, which is the same matrix
        "embedding_norm": c.norm == "post",
    }
    size = recipe.model.get("size")
    asked = {**(Transformer.sizes[size] if size else {}), **recipe.model}
    for key, value in taken.items():
        if asked.get(key, value) != value:
            raise UserError(
                f"model.{key} is {asked[key]!r} in the recipe, {value!r} in the model to begin from, which decides it: "
                "leave it out" + (" (and model.size, which sets it)" if size else "")
            )
    shared = recipe.tokenizer.model_copy(update={"kind": "imported", "shared": True})
    model = {key: value for key, value in {**asked, **taken}.items() if key != "size"}
    try:
        return recipe.model_copy(update={"model": model, "tokenizer": shared}).network(vocabulary, vocabulary)
    except ValueError as error:
        raise UserError(f"the model to begin from cannot become an encoder: {error}") from None


@torch.no_grad()
def _fill(model: Transformer, bert: Bert, order: list[int]) -> None:
    c = bert.config
    words = bert.tokens.weight[order]
    first = c.first_position
    places = bert.positions.weight[first : first + c.max_positions] + bert.segments.weight[0]
    for embedding in model.embed.values():
        assert isinstance(embedding, nn.Embedding)
        embedding.weight.copy_(words)
    for table in model.positions.values():
        assert isinstance(table, Learned)
        table.table.copy_(places)
    norms = [model.encoder_norm] if c.norm == "pre" else list(model.embedding_norms.values())
    for norm in norms:
        norm.load_state_dict(bert.norm.state_dict())
    for layer, learned in zip(model.encoder, bert.layers, strict=True):
        layer.load_state_dict(learned.state_dict())
