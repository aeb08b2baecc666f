"""``maxplus train``: from a table to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import INTERRUPTED, DataArgument, fail, plain_errors

if TYPE_CHECKING:
    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.tables import Preparation, Samples

EVERY_MINUTE = 60.0
# Headings of the help.
OWN, PAPER = "Warm-up and polish (without --paper)", "The paper's algorithm (with --paper)"


def train(
    data: DataArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The model file to write.")
    ] = Path("model.maxplus"),
    target: Annotated[
        str | None,
        typer.Option(help="The column with the labels. By default one named class, target, label "
                     "or y, or else the last."),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="A column of words, to be one-hot encoded; repeatable."),
    ] = None,
    scale: Annotated[
        bool | None,
        typer.Option(
            help="Bring features to mean 0 and deviation 1 for training; the model file takes raw "
            "values all the same. On by default, but for images."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The randomness of the start.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Threads; all by default.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write the training's state here every minute.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on from this checkpoint, with its options, on the same DATA."),
    ] = None,
    hidden: Annotated[
        int | None,
        typer.Option("--hidden", "-H", min=1,
                     help="Hidden units. They follow the data by default; 100 with --paper."),
    ] = None,
    slope: Annotated[
        float | None, typer.Option(help="The paper's k. It follows the data by default.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="The paper's k in W2. It follows the slope by default.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes of the warm-up. They follow the data by default.",
                     rich_help_panel=OWN),
    ] = None,
    robust_eps: Annotated[
        float | None,
        typer.Option(
            help="Train for predictions certified for changes up to this, in deviations of "
            "each feature where they are scaled. 0 by default.", rich_help_panel=OWN,
        ),
    ] = None,
    early_stopping: Annotated[
        bool | None,
        typer.Option("--early-stopping", help="Hold a tenth out, and keep the epoch best on it.",
                     rich_help_panel=OWN),
    ] = None,
    polish: Annotated[
        float | None,
        typer.Option(help="Bring every training loss below this. log 2 by default.",
                     rich_help_panel=OWN),
    ] = None,
    no_polish: Annotated[
        bool, typer.Option("--no-polish", help="Leave the polish out.", rich_help_panel=OWN)
    ] = False,
    max_suspects: Annotated[
        float | None,
        typer.Option(help="How many samples, or which share of them, the polish may leave as they "
                     "are. 0 by default.", rich_help_panel=OWN),
    ] = None,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Train as the paper does, by subgradient steps on the worst "
                     "sample.", rich_help_panel=PAPER),
    ] = False,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", "-n", min=1, help="Iterations. 10,000 by default.",
                     rich_help_panel=PAPER),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(help="prototypes (default), gaussian or uniform.", rich_help_panel=PAPER),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="The loss to minimise: max (default), mean or top-k.",
                     rich_help_panel=PAPER),
    ] = None,
    top_k: Annotated[
        float | None,
        typer.Option(help="How many samples top-k is about, or which share of them. 0.1 by "
                     "default.", rich_help_panel=PAPER),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(help="two-phase (default), polyak, constant or level.",
                     rich_help_panel=PAPER),
    ] = None,
    polyak_target: Annotated[
        float | None,
        typer.Option(help="The loss that Polyak steps aim at. 0 by default.",
                     rich_help_panel=PAPER),
    ] = None,
    polyak_fraction: Annotated[
        float | None,
        typer.Option(help="The share of Polyak steps in two phases. 0.5 by default.",
                     rich_help_panel=PAPER),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(help="The paper's ε of constant steps. 0.1 by default.",
                     rich_help_panel=PAPER),
    ] = None,
    linear_every: Annotated[
        int | None,
        typer.Option(help="Iterations between moves of W0. 100 by default.",
                     rich_help_panel=PAPER),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="auto (default), dense, tree, sparse or sgd.", rich_help_panel=PAPER),
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="The best (default) or the last iterate.",
                                 rich_help_panel=PAPER)
    ] = None,
) -> None:  # fmt: skip
    """Train a classifier, bring its worst case under control and write it to a file.

    Ctrl-C keeps the best model so far. Example: maxplus train flowers.csv --target species
    """
    with plain_errors():
        _require_folder(out, "--out")
        if resume is not None:
            _resume(data, out, resume, checkpoint or resume)
            return
        from maxplus.tables import ColumnChoices, Preparation, open_source

        if no_polish and polish is not None:
            raise ValueError(f"--polish {polish:g} and --no-polish exclude each other; give one")
        common = {"n_hidden": hidden, "slope": slope, "confidence": confidence}
        own = {
            "--epochs": ("warmup_epochs", epochs), "--robust-eps": ("robust_eps", robust_eps),
            "--early-stopping": ("early_stopping", early_stopping), "--polish": ("polish", polish),
            "--no-polish": ("polish", "none" if no_polish else None),
            "--max-suspects": ("max_suspects", _number(max_suspects)),
        }  # fmt: skip
        papers = {
            "--iterations": ("max_iter", iterations), "--init": ("init", init),
            "--objective": ("objective", objective), "--top-k": ("top_k", _number(top_k)),
            "--step": ("step", step), "--polyak-target": ("polyak_target", polyak_target),
            "--polyak-fraction": ("polyak_fraction", polyak_fraction),
            "--learning-rate": ("learning_rate", learning_rate),
            "--linear-every": ("linear_every", linear_every), "--engine": ("engine", engine),
            "--keep": ("keep", keep),
        }  # fmt: skip
        _refuse(own if paper else papers, paper)
        given = [*(papers if paper else own).values(), *common.items()]
        options: dict[str, Any] = {name: value for name, value in given if value is not None}
        if no_polish:
            options["polish"] = None
        classifier = _classifier(paper, options | {"n_jobs": jobs, "random_state": seed})
        samples = open_source(data, ColumnChoices(target, categorical=categorical or ()))
        wanted = samples.image_shape is None if scale is None else scale
        if not paper:
            # It scales by itself.
            classifier.set_params(scale=wanted)
        preparation = Preparation.of(samples, scale=wanted and paper)
        _announce(samples)
        _train(classifier, samples, preparation, out, checkpoint)


def _refuse(others: dict[str, tuple[str, Any]], paper: bool) -> None:
    """An option of the other way to train would silently do nothing."""
    given = [option for option, (_, value) in others.items() if value is not None]
    if given:
        remedy = "leave it out" if paper else "add --paper, or leave it out"
        whose = "is not the paper's" if paper else "is for --paper"
        raise ValueError(f"{given[0]} {whose}; {remedy}")


def _classifier(paper: bool, options: dict[str, Any]) -> Any:
    from maxplus.estimators import LMMClassifier, SubgradientLMMClassifier

    classifier = (SubgradientLMMClassifier if paper else LMMClassifier)(**options)
    # Before a large table is read.
    classifier._check_parameters()
    return classifier


def _number(value: float | None) -> float | None:
    """A whole number as one: 5 samples are not the share 5.0."""
    return int(value) if value is not None and value.is_integer() else value


def _train(
    classifier: BaseLMMClassifier, samples: Samples, preparation: Preparation, out: Path,
    checkpoint: Path | None,
) -> None:  # fmt: skip
    from maxplus.io import Checkpoint

    if checkpoint is not None:
        _require_folder(checkpoint, "--checkpoint")
    X, y = preparation.scaled(samples.X), _labels(samples)
    notes = preparation.to_json()
    with _bar(classifier) as bar:
        own = [] if checkpoint is None else [Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        classifier.callbacks = [bar, *own]
        _quietly(lambda: classifier.fit(X, y))
    _finish(classifier, samples, preparation, out, checkpoint)


def _resume(data: str, out: Path, path: Path, checkpoint: Path) -> None:
    from maxplus.io import Checkpoint
    from maxplus.io.checkpoints import read_checkpoint, resume
    from maxplus.tables import Preparation, open_source

    trained, _, _, document = read_checkpoint(path)
    notes = document.get("notes")
    if not isinstance(notes, dict) or "encoding" not in notes:
        raise ValueError(f"{path} was not written by maxplus train; use maxplus.resume in Python")
    preparation = Preparation.from_json(notes)
    samples = open_source(data, preparation=preparation, labelled=True)
    X, y = preparation.scaled(samples.X), _labels(samples)
    with _bar(trained) as bar:
        callbacks = [bar, Checkpoint(checkpoint, EVERY_MINUTE, notes)]
        classifier = _quietly(lambda: resume(path, X, y, callbacks))
    _finish(classifier, samples, preparation, out, checkpoint)


def _finish(
    classifier: BaseLMMClassifier, samples: Samples, preparation: Preparation, out: Path,
    checkpoint: Path | None,
) -> None:  # fmt: skip
    """Fold the scaling into the weights, judge the result on raw values, write and tell."""
    from maxplus.training import Status

    classifier.callbacks = None
    if preparation.centre is not None and preparation.spread is not None:
        classifier.fold(preparation.centre, preparation.spread, samples.X)
    classifier.preparation_ = preparation
    classifier.save(out)
    _tell(classifier, samples, out)
    if classifier.status_ == Status.INTERRUPTED.value:
        hint = f"; go on with --resume {checkpoint}" if checkpoint is not None else ""
        typer.echo(f"Interrupted; the best model so far is in {out}{hint}.", err=True)
        raise typer.Exit(INTERRUPTED)


def _tell(classifier: BaseLMMClassifier, samples: Samples, out: Path) -> None:
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


def _bar(classifier: Any) -> Any:
    from maxplus.training.progress import ProgressBar

    return ProgressBar("training", certificate=getattr(classifier, "objective", "") == "max")


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
