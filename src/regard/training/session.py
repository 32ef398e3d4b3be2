"""One training session from start to finish: a recipe (or pairs in memory) in, a scored bundle out."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.bundle import Bundle, load_bundle, read_facts
from regard.config import WRITING, Recipe, load_recipe
from regard.data.cache import fingerprint
from regard.errors import UserError
from regard.files import cache_folder, sweep, write_text
from regard.memory import keep_freed_memory
from regard.nn import native
from regard.tasks.task import Asked, Pairs, Task, kept
from regard.training.checkpoint import Checkpoint
from regard.training.curves import curves
from regard.training.fit import Callback, Event, Fit, Progress, load_weights
from regard.training.optim import freeze, rate
from regard.training.prepare import PREPARE, absolute_paths
from regard.training.resume import changed_data, changed_keys, elsewhere, environment, stretched
from regard.training.run import TOKENIZERS, Run
from regard.training.signals import Stop
from regard.training.transfer import in_our_numbers, like, not_taken, take_weights, with_decoder
from regard.training.update import choose_device, mixed
from regard.workers import no_denormals, parts_for

BEST = "best"  # the weights that scored best on dev


def train(
    recipe: Recipe,
    out: Path,
    *,
    pairs: Pairs | None = None,
    dev: Pairs | None = None,
    base: Path | None = None,
    resume: bool = False,
    step: int | None = None,
    force: bool = False,
    start_from: Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Bundle:
    """Trains in folder `out` and gives back the final model, scored.

    base: the folder that the recipe's data paths are relative to. step: resume from this checkpoint in place of the
    newest. force: resume although the data or the recipe changed. start_from: a bundle whose weights and tokenizers
    to go on from.
    """
    keep_freed_memory()
    if recipe.train.threads:
        torch.set_num_threads(recipe.train.threads)
    run = Run(out, recipe.train.keep)
    stop = Stop()
    on_cpu = choose_device(recipe.train)[0].type == "cpu"
    steps = native.compiled(cache_folder("native"), recipe.train.precision) if on_cpu else nullcontext("")
    with stop.listening(), run.locked(), no_denormals(), steps as lacking:
        sweep(run.folder)
        if run.begun and not resume:
            raise UserError(f"{out} holds a run already; go on with --resume, or choose another folder with --out")
        if run.begun and start_from is not None and run.checkpoints.steps():
            raise UserError(f"{out} goes on from its own weights; leave out --from")
        session = _Session(recipe, run, stop, callbacks, pairs, dev, base, start_from, lacking)
        session.warn_of_plain_steps()
        return session.resumed(step, force) if resume and run.begun else session.begun()


class _Session:
    def __init__(
        self,
        recipe: Recipe,
        run: Run,
        stop: Stop,
        callbacks: Sequence[Callback],
        pairs: Pairs | None,
        dev: Pairs | None,
        base: Path | None,
        start_from: Path | None,
        lacking: str,
    ) -> None:
        self.run, self.stop, self.callbacks, self.lacking = run, stop, callbacks, lacking
        self.parent = load_bundle(start_from) if start_from else None
        if self.parent is not None and self.parent.name == "bert" and recipe.task in WRITING:
            torch.manual_seed(mixed(recipe.seed, 0))  # the decoder's first weights
            self.parent = with_decoder(self.parent, recipe)
        elif self.parent is not None and self.parent.task == "language" and recipe.task in WRITING:
            self.parent = in_our_numbers(self.parent)
        self.recipe = absolute_paths(like(recipe, self.parent) if self.parent else recipe, base)
        self.not_taken = not_taken(recipe, self.parent) if self.parent else []
        self.pairs, self.dev = pairs, dev
        self.task: Task
        self.facts: dict[str, Any]

    def begun(self) -> Bundle:
        """From the first step. What an earlier start left behind without a checkpoint is made anew."""
        for left in TOKENIZERS:
            (self.run.folder / left).unlink(missing_ok=True)
        self.run.forget_after(-1)
        self._settle_parts()
        self._check_precision()
        with self.stop.interruptible():
            self._prepare()
        write_text(self.run.recipe_path, self.recipe.to_toml())
        self._warn_of_rate()
        if self.not_taken:
            told = "; ".join(self.not_taken)
            self._warn(f"the model to go on from decides its shape: {told}")
        fit = self._fit()
        if self.parent is not None:
            fit.save(scheduled=False)  # from here on the run does not need the model it began from
        return self._finish(self._trained(fit))

    def resumed(self, step: int | None, force: bool) -> Bundle:
        if not self.run.checkpoints.steps():  # stopped before the first checkpoint: the recipe is all there is
            return self.begun()
        checkpoint = self.run.checkpoints.load(step)
        self.saved = load_recipe(self.run.recipe_path)
        if self.recipe.train.lr is None:  # what it came to depends on the model that the run began from
            rated = self.recipe.train.model_copy(update={"lr": self.saved.train.lr})
            self.recipe = self.recipe.model_copy(update={"train": rated})
        self._settle_parts(self.saved.train.parts)
        if self.saved.train.optimizer != self.recipe.train.optimizer or self.saved.shape() != self.recipe.shape():
            raise UserError(
                f"{self.run.folder} was trained with another optimizer or model, whose state does not fit; "
                f"begin a new run with --from {self.run.folder}"
            )
        changes, complete = changed_keys(self.saved, self.recipe), self._complete(checkpoint)
        if not complete:  # one that has ended does not need its data any more
            changes += changed_data(checkpoint.state["facts"], self.recipe, self.pairs)
        if changes and (complete or not force):
            way = "it has ended: begin another run" if complete else "undo that, or use --force"
            raise UserError(f"cannot resume {self.run.folder}: {'; '.join(changes)}; {way}")
        if complete:
            self._tell({"event": "finished", "step": checkpoint.step})
            return load_bundle(self.run.model_path)
        self._check_precision()
        with self.stop.interruptible():
            self._prepare()
        self.facts["licences"] = checkpoint.state["facts"].get("licences", [])
        others = ("data.", "tokenizer.", "train.batch", "seed", "the data")
        fit = self._fit()
        fit.restore(checkpoint, restart_epoch=any(change.startswith(others) for change in changes))
        self._forget_lost_best(fit.progress, changes)
        write_text(self.run.recipe_path, self.recipe.to_toml())
        before = checkpoint.state["facts"].get("environment", {})
        self._warn(elsewhere(before, self.facts["environment"]))
        self._warn(stretched(self.saved.train, self.recipe.train))
        for later in [s for s in self.run.checkpoints.steps() if s > checkpoint.step]:
            self.run.checkpoints.remove(later)
        self.run.forget_after(checkpoint.step)
        return self._finish(self._trained(fit))

    @property
    def precision(self) -> str:
        """What the matrix products are made in."""
        config = self.recipe.train
        return "bfloat16" if choose_device(config)[1] else str(environment(config.parts)["products"])

    def _settle_parts(self, parts: int = 0) -> None:
        """A number of parts for good, so that a run goes on the same on a machine with other cores."""
        config = self.recipe.train
        device, _ = choose_device(config)
        fitting = parts_for(config.batch_tokens, torch.get_num_threads()) if device.type == "cpu" else 1
        settled = config.model_copy(update={"parts": config.parts or parts or fitting})
        self.recipe = self.recipe.model_copy(update={"train": settled})

    def _check_precision(self) -> None:
        """Whole numbers that were asked for by name are there, or it is told why not."""
        config = self.recipe.train
        if config.precision != "int16" or self.precision == "int16":
            return
        if choose_device(config)[0].type != "cpu":
            why = "they are for processors, not for graphics cards"
        elif self.lacking:
            why = self.lacking
        elif native.products() == "int16":
            why = f"each part has to have one thread; with parts = {config.parts} there are {torch.get_num_threads()}"
        else:
            why = "the processor lacks AVX-512 VNNI, or the compiler does not know it"
        forced = " with --force" if self.run.begun else ""
        raise UserError(f"precision = int16 cannot be had here: {why}; leave it at auto{forced}")

    def _complete(self, checkpoint: Checkpoint) -> bool:
        """Everything was done, the final model too, and no more steps are asked for."""
        progress = Progress(**checkpoint.state["progress"])
        config = self.recipe.train
        enough = progress.step >= config.steps or 0 < config.patience <= progress.without_gain
        if not progress.finished or not enough:
            return False
        try:
            training = load_bundle(self.run.model_path).training
        except UserError:
            return False
        return bool(training.get("finished") and training["steps"] == progress.step)  # else it is a shorter run's

    def _prepare(self) -> None:
        asked = Asked(self.recipe, self.run.folder, self._tell, self.parent, self.pairs, self.dev)
        self.task, self.facts = PREPARE[self.recipe.task](asked)
        self.facts["dev"] = fingerprint(self.recipe.data.dev)
        self.facts["environment"] = environment(self.recipe.train.parts)
        self.facts["licences"] = self.parent.licences if self.parent else []

    def _fit(self) -> Fit:
        """With the first weights."""
        torch.manual_seed(mixed(self.recipe.seed, 0))
        self.model = model = self.task.model()
        if self.parent is not None:
            take_weights(model, self.parent, self.recipe.task, self.task.labels)
        freeze(model, self.recipe.train.freeze)
        self.fit = Fit(
            self.task,
            model,
            self.recipe.train,
            self.run,
            seed=self.recipe.seed,
            d_model=model.config.d_model,
            metric=self.recipe.metric,
            facts=self.facts,
            callbacks=self.callbacks,
            on_best=self._save_best,
            stop=self.stop,
        )
        return self.fit

    def _trained(self, fit: Fit) -> Fit:
        self._tell(
            {
                "event": "begin",
                "step": fit.progress.step,
                "steps": self.recipe.train.steps,
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "device": str(fit.update.device),
                "precision": self.precision,
                "out": str(self.run.folder),
            }
        )
        fit.train()
        return fit

    def _finish(self, fit: Fit) -> Bundle:
        """Chooses the final weights, scores them on all of dev and test, and writes the bundle."""
        self._tell({"event": "finishing", "step": fit.progress.step})
        with self.stop.interruptible():
            load_weights(fit.model, self._final_weights(fit))
            bundle = self._bundle(self.model, fit.progress, self._chosen_weights(fit.progress))
            bundle.scores = self.task.scores(self.model)
            bundle.training["finished"] = True
        bundle.save(self.run.model_path)
        self._draw()
        self._tell(
            {"event": "end", "step": fit.progress.step, "scores": bundle.scores, "seconds": fit.progress.seconds}
        )
        return bundle

    def _final_weights(self, fit: Fit) -> dict[str, Tensor]:
        checkpoints, chosen = self.run.checkpoints, self._chosen_weights(fit.progress)
        if chosen == "average":
            steps = checkpoints.scheduled()[-self.recipe.train.average :]
            return average([checkpoints.weights(s) for s in steps])
        if chosen == BEST:
            return {n: p.detach() for n, p in load_bundle(self.run.model_path).model.named_parameters()}
        return fit.update.average or {n: p.detach().clone() for n, p in fit.model.named_parameters()}

    def _chosen_weights(self, progress: Progress) -> str:
        config = self.recipe.train
        return "average" if config.average else BEST if config.final == BEST and progress.best_step else "last"

    def _forget_lost_best(self, progress: Progress, changes: Sequence[str]) -> None:
        """What was best is not, by another score or on another set; or its weights are gone.

        These stand in the model's folder alone, where others may have been put since: those that the run ended with, or
        those of later steps. When nothing has changed, these will be found again.
        """
        try:
            training = read_facts(self.run.model_path)["training"]
        except UserError:
            training = {}
        there = training.get("weights") == BEST
        there &= training.get("best_step") == progress.best_step or (
            training.get("best_step", 0) > progress.step and not changes
        )
        dev = any(change.startswith(("the dev set", "data.dev")) for change in changes)
        if progress.best_step and (not there or dev or self.saved.metric != self.recipe.metric):
            text = f"what was best, the weights of step {progress.best_step}, is so no longer, or gone"
            self._warn(f"{text}: from here on the best is sought anew")
            progress.best, progress.best_loss, progress.best_step = None, math.inf, 0

    def _save_best(self, model: Any, event: Event) -> None:
        bundle = self._bundle(model, self.fit.progress, BEST)
        if chosen := event.get("chosen"):  # a run that is stopped has it too
            bundle.scores = {"dev": kept(chosen)}
        bundle.save(self.run.model_path)
        self._draw()

    def _bundle(self, model: Any, progress: Progress, weights: str) -> Bundle:
        recipe = self.recipe
        training: dict[str, Any] = {
            "steps": progress.step,
            "best_step": progress.best_step,
            "weights": weights,
            "target_tokens": progress.tokens,
            "seconds": round(progress.seconds, 1),
            "precision": self.precision,
            "pairs": self.facts["pairs"],
            "recipe": recipe.model_dump(mode="json", exclude_none=True),
        }
        if not recipe.data.dev and self.run.held_out_path.exists():
            training["recipe"]["data"]["dev"] = [str(self.run.held_out_path.absolute())]
        licences = list(dict.fromkeys(filter(None, [recipe.data.licence, *self.facts["licences"]])))
        return Bundle(
            model,
            self.task.source,
            self.task.target,
            (recipe.data.source, recipe.data.target),
            recipe.data.max_length,
            recipe.decode,
            training,
            {},
            licences,
            recipe.network_name,
            task=recipe.task,
            labels=list(self.task.labels),
        )

    def _draw(self) -> None:
        write_text(self.run.folder / "curves.svg", curves(self.run.events()))

    def warn_of_plain_steps(self) -> None:
        if self.lacking:
            self._warn(f"training is slower than it could be, for want of compiled steps: {self.lacking}")

    def _warn_of_rate(self) -> None:
        """Rates so small that nothing is learned are hardly what was meant."""
        c = self.recipe.train
        top = c.peak * rate(c, min(c.steps, max(1, c.warmup)), self.recipe.shape().d_model)
        if c.schedule == "paper" and c.lr is not None and c.lr < 0.05:
            self._warn(
                f"train.lr = {c.lr:g} is a factor of the schedule 'paper', "
                f"which gives {top:.1g} at most; set train.schedule"
            )
        elif c.schedule not in ("linear", "cosine") and c.warmup > c.steps:
            self._warn(
                f"train.warmup = {c.warmup:,} is longer than the {c.steps:,} steps: "
                f"the learning rate gets to {top:.1g} only"
            )

    def _warn(self, text: str) -> None:
        if text:
            self._tell({"event": "warning", "text": text})

    def _tell(self, event: Event) -> None:
        for callback in self.callbacks:
            callback(event)


def average(weights: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights."""
    if not weights:
        raise UserError("there are no weights to average")
    names = weights[0].keys()
    return {n: torch.stack([w[n].double() for w in weights]).mean(0).to(weights[0][n].dtype) for n in names}
