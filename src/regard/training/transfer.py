"""What a new model takes from an old one: its shape, a body, a head as far as it fits, or an encoder (Rothe 2020)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.bundle import Bundle
from regard.config import GENTLE, WRITING, Recipe, make_recipe
from regard.errors import UserError
from regard.models import GPT, MODELS, Bert, Transformer
from regard.nn.position import Learned
from regard.training.fit import load_weights


def like(recipe: Recipe, parent: Bundle) -> Recipe:
    """The recipe with the shape and languages of the model to go on from."""
    config = parent.model.config.model_dump(
        mode="json", exclude={"source_vocabulary", "target_vocabulary", "vocabulary"}
    )
    dropouts = {key: value for key, value in recipe.model.items() if key.endswith("dropout") and key in config}
    model = {"name": parent.name, **config, **dropouts}
    shared = parent.source.checksum == parent.target.checksum
    if parent.source.uncased and recipe.task in (*WRITING, "language", "two-way"):
        raise UserError(
            f"{recipe.task} has words with capitals to give, and the model to go on from was trained without any "
            "(tokenizer.uncased); train one with tokenizer.uncased=false"
        )
    if recipe.tokenizer.uncased and not parent.source.uncased:
        raise UserError("tokenizer.uncased: the model to go on from has a tokenizer of its own, which is not uncased")
    taken = {"kind": parent.source.kind, "shared": shared, "uncased": parent.source.uncased}
    tokenizer = recipe.tokenizer.model_copy(update=taken)
    unnamed = {"source": parent.languages[0]} if recipe.data.source == "source" else {}
    unnamed |= {"target": parent.languages[1]} if recipe.data.target == "target" else {}
    data = recipe.data.model_copy(update=unnamed)
    open_rate = recipe.train.lr is None and recipe.train.schedule != "paper" and recipe.task not in WRITING
    gentle = {"lr": GENTLE} if open_rate else {}
    train = recipe.train.model_copy(update=gentle)
    changed = recipe.model_copy(update={"model": model, "tokenizer": tokenizer, "data": data, "train": train})
    return make_recipe(changed.model_dump(exclude_none=True))  # checked again: the shape is another


def not_taken(recipe: Recipe, parent: Bundle) -> list[str]:
    """What the recipe says of the model's shape and the model to go on from decides otherwise."""
    if recipe.network_name != parent.name:
        return [f"model.name is {parent.name!r}, not {recipe.network_name!r}"] if "name" in recipe.model else []
    asked = {**MODELS[parent.name].sizes.get(recipe.model.get("size", ""), {}), **recipe.model}
    there, wanted = (config.model_dump(mode="json") for config in (parent.model.config, recipe.shape()))
    keys = [key for key in asked if key in there and not key.endswith("dropout")]
    return [f"model.{key} is {there[key]!r}, not {wanted[key]!r}" for key in keys if there[key] != wanted[key]]


def take_weights(model: nn.Module, parent: Bundle, task: str, labels: Sequence[str]) -> None:
    """A body's weights from a model with another head. Of the head what fits is taken too, and the rows of those labels
    that the parent knows, if it had the same task; the rest begins anew."""
    own = dict(model.named_parameters())
    weights = {name: p.detach() for name, p in parent.model.named_parameters()}
    for name in [name for name in weights if name in own and name.startswith(f"{getattr(model, 'by_label', None)}.")]:
        theirs = weights.pop(name)
        rows = _rows_of(labels, own[name].detach(), theirs, parent.labels) if task == parent.task else None
        weights |= {} if rows is None else {name: rows}
    headed = any(name.startswith("body.") for name in own)
    if headed and not any(name.startswith("body.") for name in weights):
        weights = {f"body.{name}": weight for name, weight in weights.items()}  # a model that needs no head
    fitting = {name for name, weight in weights.items() if name in own and own[name].shape == weight.shape}
    needed = (name for name in own if name.startswith("body.") or (name in weights and not headed))
    missing = sorted(name for name in needed if name not in fitting)
    if missing or not fitting:
        raise UserError(f"the weights to begin from do not fit this model: {missing[0] if missing else 'none of them'}")
    load_weights(model, {name: weights[name] if name in fitting else p.detach() for name, p in own.items()})


def _rows_of(labels: Sequence[str], own: Tensor, known: Tensor, theirs: Sequence[str]) -> Tensor | None:
    """A row for each label: that of the same name, where there is one, else our own."""
    if own.shape[1:] != known.shape[1:] or bool(labels) != bool(theirs):
        return None
    place = {label: row for row, label in enumerate(theirs)}
    rows = [known[place[label]] if label in place else own[row] for row, label in enumerate(labels)]
    return torch.stack(rows) if rows else known


def in_our_numbers(writer: Bundle) -> Bundle:
    """A language model whose special tokens have the numbers that they have in translation, each one of its own."""
    tokenizer, order = writer.source.with_our_specials()
    if tokenizer is writer.source:
        return writer
    state = writer.model.state_dict()
    model = GPT(writer.model.config.model_copy(update={"vocabulary": len(tokenizer)}))
    rows = {name: state[name][order] for name in ("tokens.weight", "last.weight") if name in state}
    model.load_state_dict(state | rows)
    return replace(writer, model=model, source=tokenizer, target=tokenizer)


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
