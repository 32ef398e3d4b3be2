"""Summarisation with a model that writes on: a document, a prompt ("TL;DR:", Radford 2019), and then its summary."""

# Shapes: B batch, T length, D width.

from functools import cached_property

import torch

from regard.config import Recipe
from regard.errors import UserError
from regard.models import MODELS, HeadConfig, Prompted
from regard.nn.loss import smoothed_loss
from regard.tasks.task import Loss
from regard.tasks.translation import Batch, TranslationTask
from regard.text import PAD, Specials, Tokenizer


class PromptedTask(TranslationTask):
    """Learns p(summary | document, prompt) token by token; and the document's own words, if they count."""

    @cached_property
    def head(self) -> HeadConfig:
        return settled(self.recipe, self.source)

    @property
    def limits(self) -> tuple[int, int]:
        return limits(self.recipe, self.source)

    def model(self) -> Prompted:
        body = MODELS[self.recipe.network_name](self.recipe.network(len(self.source), len(self.source)))
        return Prompted(body, self.head)

    def loss(self, model: Prompted, batch: Batch) -> Loss:  # type: ignore[override]
        """The summary's loss; with `also_document` L3 = L2 + weight L1 (Radford 2018, equation 5), each a mean."""
        weight, smoothing = self.head.also_document, self.recipe.train.label_smoothing
        if not weight:
            return super().loss(model, batch)
        rows, places = model.rows(batch.source, batch.lengths, batch.target_in[:, 1:])
        states = model.body(rows)  # B T D
        real = batch.target_out != PAD
        written = model.written(states, places, real.size(1))[real]
        total, nll = smoothed_loss(written, model.output, None, batch.target_out[real], smoothing)
        given = torch.arange(rows.size(1) - 1, device=rows.device) < places[:, None]  # what is guessed there is given
        more, _ = smoothed_loss(states[:, :-1][given], model.output, None, rows[:, 1:][given], smoothing)
        return Loss(total + weight * more * (batch.count / max(1, int(given.sum()))), batch.count, {"nll": nll})


def settled(recipe: Recipe, tokenizer: Tokenizer) -> HeadConfig:
    """The head with its prompt in tokens, and how many a document may have."""
    if tokenizer.specials.ids - {tokenizer.specials.mask} != Specials().ids:
        raise UserError("summaries are learned with a tokenizer of Regard's own; begin from a model that has one")
    (prompt,) = tokenizer.encode_batch([recipe.head.prompt], [True])
    if not prompt:
        raise UserError("head.prompt is empty: something must stand between a document and its summary")
    whole, document = recipe.data.max_length, recipe.head.document or recipe.data.max_length * 3 // 4 - len(prompt)
    if document < 1 or document + len(prompt) >= whole:
        raise UserError(
            f"of data.max_length = {whole} tokens the prompt {recipe.head.prompt!r} has {len(prompt)} and a document "
            f"{max(document, 0)}: raise data.max_length or lower head.document, so that there is room for the summary"
        )
    summary = whole - document - len(prompt)
    return recipe.head.model_copy(update={"prompt_tokens": tuple(prompt), "document": document, "summary": summary})


def limits(recipe: Recipe, tokenizer: Tokenizer) -> tuple[int, int]:
    """The most tokens of a document and of a summary: with the prompt they are a row."""
    head = settled(recipe, tokenizer)
    return head.document, head.summary
