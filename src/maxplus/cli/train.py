"""``maxplus train``: from a table to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import INTERRUPTED, DataArgument, fail, plain_errors

if TYPE_CHECKING:
    from maxplus.estimators import LMMClassifier
    from maxplus.tables import Preparation, Samples

EVERY_MINUTE = 60.0


def train(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")] = Path(
        "model.maxplus"
    ),
    target: Annotated[
        str | None,
        typer.Option(
            help="The column with the labels; by default the one named target, label, class or y, "
            "else the last."
        ),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of words, of which each becomes a feature of 0 and 1; repeatable, none "
            "by default."
        ),
    ] = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            help="Bring features to mean 0 and deviation 1 for training; the model file takes raw "
            "values all the same. On by default, but for images."
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's recipe: prototypes, 10,000 iterations.")
    ] = False,
    hidden: Annotated[
        int | None, typer.Option("--hidden", "-H", min=1, help="Hidden units; follow the data.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes of the warm-up; follow the data.")
    ] = None,
    robust_eps: Annotated[
        float | None,
        typer.Option(
            help="Train for predictions certified for changes up to this, in deviations of "
            "each feature where they are scaled."
        ),
    ] = None,
    early_stopping: Annotated[
        bool | None,
        typer.Option("--early-stopping", help="Hold a tenth out, keep the epoch best on it."),
    ] = None,
    polish: Annotated[
        float | None, typer.Option(help="Bring every loss below this; log 2 by default.")
    ] = None,
    max_suspects: Annotated[
        float | None,
        typer.Option(help="Samples, or share of them, that the polish may leave as they are."),
    ] = None,
    no_polish: Annotated[bool, typer.Option("--no-polish", help="Leave that out.")] = False,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", min=0, help="Of an engine, after the warm-up."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Randomness of the start.")] = 0,
    slope: Annotated[float | None, typer.Option(help="The paper's k; follows the data.")] = None,
    confidence: Annotated[
        float | None, typer.Option(help="The paper's k in W2; the slope by default.")
    ] = None,
    init: Annotated[
        str | None, typer.Option(help="boxes, prototypes, gaussian or uniform.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help="max, mean or top-k, of iterations.")
    ] = None,
    top_k: Annotated[
        float | None, typer.Option(help="How many samples top-k is about, or which share of them.")
    ] = None,
    step: Annotated[str | None, typer.Option(help="two-phase, polyak, constant or level.")] = None,
    polyak_target: Annotated[
        float | None, typer.Option(help="Loss that Polyak steps aim at.")
    ] = None,
    polyak_fraction: Annotated[float | None, typer.Option(help="Share of Polyak steps.")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The paper's ε of constant steps.")
    ] = None,
    linear_every: Annotated[
        int | None, typer.Option(help="Iterations between moves of W0.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="auto, dense, tree, sparse or sgd.")] = None,
    keep: Annotated[str | None, typer.Option(help="best or last iterate.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all by default.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write the training's state here every minute.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on from this checkpoint, with its options, on the same DATA."),
    ] = None,
) -> None:
    """Train a classifier, bring its worst case under control and write it to a file.

    Ctrl-C keeps the best model so far. Example: maxplus train flowers.csv --target species
    """
    from maxplus.estimators import LMMClassifier

    with plain_errors():
        _require_folder(out, "--out")
        if resume is not None:
            _resume(data, out, resume, checkpoint or resume)
            return
        from maxplus.tables import Preparation, open_source

        samples = open_source(data, target=target, categorical=categorical or ())
        given = {
            "n_hidden": hidden, "warmup_epochs": epochs, "robust_eps": robust_eps,
            "early_stopping": early_stopping, "polish": polish, "max_iter": iterations,
            "slope": slope, "confidence": confidence, "init": init, "objective": objective,
            "top_k": _number(top_k), "max_suspects": _number(max_suspects),
            "step": step, "polyak_target": polyak_target, "polyak_fraction": polyak_fraction,
            "learning_rate": learning_rate, "linear_every": linear_every, "engine": engine,
            "keep": keep,
        }  # fmt: skip
        options: dict[str, Any] = {name: v for name, v in given.items() if v is not None}
        if no_polish and polish is not None:
            raise ValueError(f"--polish {polish:g} and --no-polish exclude each other; give one")
        if no_polish:
            options["polish"] = None
        recipe = LMMClassifier.paper if paper else LMMClassifier
        classifier = recipe(**options, n_jobs=jobs, random_state=seed)
        classifier._check_parameters()
        preparation = Preparation.of(samples, scale=scale)
        _announce(samples)
        _train(classifier, samples, preparation, out, checkpoint)


def _number(value: float | None) -> float | None:
    """A whole number as one: 5 samples are not the share 5.0."""
    return int(value) if value is not None and value.is_integer() else value


def _train(
    classifier: LMMClassifier, samples: Samples, preparation: Preparation, out: Path,
    checkpoint: Path | None,
) -> None:  # fmt: skip
    from maxplus.io import Checkpoint

    if checkpoint is not None:
        _require_folder(checkpoint, "--checkpoint")
    X, y = preparation.scaled(samples.X), _labels(samples)
    notes = preparation.to_json()
    with _bar(classifier.objective) as bar:
        own = [] if checkpoint is None else [Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        classifier.callbacks = [bar, *own]
        _quietly(lambda: classifier.fit(X, y))
    _finish(classifier, samples, preparation, out, checkpoint)


def _resume(data: str, out: Path, path: Path, checkpoint: Path) -> None:
    from maxplus.io import Checkpoint
    from maxplus.io.checkpoints import read_checkpoint, resume
    from maxplus.tables import Preparation, open_source

    trained, _, document = read_checkpoint(path)
    notes = document.get("notes")
    if not isinstance(notes, dict) or "encoding" not in notes:
        raise ValueError(f"{path} was not written by maxplus train; use maxplus.resume in Python")
    preparation = Preparation.from_json(notes)
    samples = open_source(data, encoding=preparation.encoding)
    X, y = preparation.scaled(samples.X), _labels(samples)
    with _bar(trained.objective) as bar:
        callbacks = [bar, Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        classifier = _quietly(lambda: resume(path, X, y, callbacks))
    _finish(classifier, samples, preparation, out, checkpoint)


def _finish(
    classifier: LMMClassifier, samples: Samples, preparation: Preparation, out: Path,
    checkpoint: Path | None,
) -> None:  # fmt: skip
    """Fold the scaling into the weights, judge the result on raw values, write and tell."""
    from maxplus.estimators._folding import fold_affine
    from maxplus.training import Status

    classifier.callbacks = None
    if preparation.centre is not None and preparation.spread is not None:
        fold_affine(classifier, preparation.centre, preparation.spread, samples.X)
    classifier.preparation_ = preparation
    classifier.save(out)
    _tell(classifier, samples, out)
    if classifier.status_ == Status.INTERRUPTED.value:
        hint = f"; go on with --resume {checkpoint}" if checkpoint is not None else ""
        typer.echo(f"Interrupted; the best model so far is in {out}{hint}.", err=True)
        raise typer.Exit(INTERRUPTED)


def _tell(classifier: LMMClassifier, samples: Samples, out: Path) -> None:
    accuracy = float((classifier.predict(samples.X) == classifier.training_labels_).mean())
    if classifier.certified_:
        verdict = "below log 2 = 0.693: every training sample is right, provably"
    else:
        verdict = "not below log 2 = 0.693: no certificate"
    typer.echo(f"maximum loss   {classifier.max_loss_:.4f}, {verdict}")
    typer.echo(f"mean loss      {classifier.mean_loss_:.4f}")
    typer.echo(f"right          {accuracy:.2%} of {len(samples.X):,} training samples")
    suspects = getattr(classifier, "suspects_", ())
    if len(suspects):
        typer.echo(
            f"suspects       {len(suspects):,} rows that do not fit: see suspects_ in Python"
        )
    typer.echo(f"model          {out}")


def _announce(samples: Samples) -> None:
    labels = _labels(samples)
    typer.echo(
        f"{samples.name}: {samples.X.shape[0]:,} rows, {samples.X.shape[1]:,} features, target "
        f"{samples.encoding.target!r} with {len(set(labels.tolist()))} classes"
    )


def _labels(samples: Samples) -> Any:
    if samples.y is None:
        raise ValueError(f"{samples.name} has no column {samples.encoding.target!r} with labels")
    return samples.y


def _bar(objective: str) -> Any:
    from maxplus.training.progress import ProgressBar

    return ProgressBar("training", certificate=objective == "max")


def _quietly(fit: Any) -> Any:
    """Fit without the warning about Ctrl-C: the command says it in its own words."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "training was interrupted")
        return fit()


def _require_folder(path: Path, option: str) -> None:
    """A training should not be lost because its file cannot be written."""
    if not path.resolve().parent.is_dir():
        fail(f"{option} {path}: the folder {path.resolve().parent} does not exist; make it first")
    if path.is_dir():
        fail(f"{option} {path} is a folder; name a file")
