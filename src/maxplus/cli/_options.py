"""The options of ``maxplus train``, each with its help; shared ones are used elsewhere too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Headings of the help.
COLUMNS, CAPACITY = "Columns", "How much the model may bend"
OWN, CURVE = "Training (without --paper)", "Regression"
PAPER = "The paper's algorithm (with --paper)"


# -- columns ---------------------------------------------------------------------------------------

Target = Annotated[
    str | None,
    typer.Option(help="The column to predict. By default one named class, target, label or y, or "
                 "else the last.", rich_help_panel=COLUMNS),
]  # fmt: skip
TaskOption = Annotated[
    str,
    typer.Option(help="classification, regression, or auto: a target of many different numbers is "
                 "a regression's.", rich_help_panel=COLUMNS),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to leave out: --drop a,b or repeated. None by default.",
        rich_help_panel=COLUMNS,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="Columns to use although they look like ids, dates or free text. None by "
                 "default.", rich_help_panel=COLUMNS),
]  # fmt: skip
Categorical = Annotated[
    list[str] | None,
    typer.Option(help="Columns whose values are categories, even if they are written as numbers. "
                 "None by default.", rich_help_panel=COLUMNS),
]  # fmt: skip
Numeric = Annotated[
    list[str] | None,
    typer.Option(help="Columns whose values are numbers, or ordered codes, even if they look like "
                 "categories. None by default.", rich_help_panel=COLUMNS),
]  # fmt: skip
Missing = Annotated[
    str,
    typer.Option(help="Missing values: impute, or error to refuse them.", rich_help_panel=COLUMNS),
]
Groups = Annotated[
    str | None,
    typer.Option(help="A column such as a patient's number: rows of one value are never on both "
                 "sides of a validation split, and the column is no feature. None by default.",
                 rich_help_panel=COLUMNS),
]  # fmt: skip
Scale = Annotated[
    bool | None,
    typer.Option(help="Bring features to one measure for training; the model file takes raw "
                 "values all the same. On by default, but for images.", rich_help_panel=COLUMNS),
]  # fmt: skip

# -- the command itself ----------------------------------------------------------------------------

ModelOut = Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")]
Validate = Annotated[
    str,
    typer.Option(
        metavar="auto|cv|FOLDS|SHARE|none",
        help="How to find out how good the model is on rows it has not seen: cv for "
        "cross-validation, a number of folds such as 10, or a share such as 0.2 to hold out. "
        "By default five folds up to 2,000 rows, three up to 10,000, a fifth held out beyond. "
        "Columns, fill-ins and capacity are chosen anew in each of these trainings, from its own "
        "rows alone; the model that is written has all rows.",
    ),
]
Suspects = Annotated[
    Path | None,
    typer.Option(help="Write the training rows that do not fit to this CSV file, most surprising "
                 "first; rows count from 1, the first line of data. None by default."),
]  # fmt: skip
RememberRows = Annotated[
    bool,
    typer.Option("--remember-rows", help="Keep a hash, the label and the loss of every training "
                 "row in the model file: evaluate, certify and report then count rows that are "
                 "equal to training rows, and suspects_ is kept. Whoever has the file can test "
                 "guesses of rows against it. Off by default: a file holds nothing per row."),
]  # fmt: skip
Seed = Annotated[int, typer.Option(help="The randomness of training and validation.")]
Jobs = Annotated[int | None, typer.Option(help="How many threads work; all by default.")]
CheckpointOut = Annotated[
    Path | None,
    typer.Option(help="Write the training's state here every minute; nowhere by default."),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        help="Go on from this checkpoint, with its options, on the same DATA. A training begins "
        "anew by default."
    ),
]

# -- capacity --------------------------------------------------------------------------------------

Hidden = Annotated[
    int | None,
    typer.Option("--hidden", "-H", min=1, rich_help_panel=CAPACITY,
                 help="Train a single network with so many hidden units. A sum of terms, chosen "
                 "from the data, by default; 100 with --paper."),
]  # fmt: skip
Slope = Annotated[
    float | None,
    typer.Option(
        help="The paper's k, of a single network. It follows the data by default.",
        rich_help_panel=CAPACITY,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(help="The paper's k in W2. It follows the slope by default.",
                 rich_help_panel=CAPACITY),
]  # fmt: skip
Structure = Annotated[
    str | None,
    typer.Option(metavar="auto|pairs|shapes", help="The terms of the sum: shapes are functions of "
                 "single columns, pairs of two, auto may have terms over all columns. auto by "
                 "default.", rich_help_panel=CAPACITY),
]  # fmt: skip
MaxFeatures = Annotated[
    int | None,
    typer.Option(min=1, help="Use at most this many features, those that contribute most. All by "
                 "default.", rich_help_panel=CAPACITY),
]  # fmt: skip
Scoring = Annotated[
    str | None,
    typer.Option(help="What the structure is chosen by: a scorer of scikit-learn, such as "
                 "balanced_accuracy or roc_auc. The log loss by default.",
                 rich_help_panel=CAPACITY),
]  # fmt: skip
Estimators = Annotated[
    int | None,
    typer.Option(min=2, help="Train an ensemble of so many models, whose scores are averaged. "
                 "One by default.", rich_help_panel=CAPACITY),
]  # fmt: skip
Bootstrap = Annotated[
    bool | None,
    typer.Option("--bootstrap", help="Let each model of the ensemble draw its own rows. By default "
                 "all have all rows.",
                 rich_help_panel=CAPACITY),
]  # fmt: skip

# -- training --------------------------------------------------------------------------------------

Epochs = Annotated[
    int | None,
    typer.Option(min=1, help="How many passes over the rows. They follow the data by default.",
                 rich_help_panel=OWN),
]  # fmt: skip
RobustEps = Annotated[
    float | None,
    typer.Option(help="Train for predictions certified for changes up to this, in deviations of "
                 "each feature where they are scaled. 0 by default.", rich_help_panel=OWN),
]  # fmt: skip
EarlyStopping = Annotated[
    bool | None,
    typer.Option("--early-stopping", help="Hold a tenth out, and keep the epoch best on it. By "
                 "default all rows are trained on, and the last epoch counts.",
                 rich_help_panel=OWN),
]  # fmt: skip
Polish = Annotated[
    str | None,
    typer.Option(metavar="auto|log2|LEVEL", help="Bring every training loss below log 2, or below "
                 "a level; auto, the default, does so where that costs nothing on held-out rows.",
                 rich_help_panel=OWN),
]  # fmt: skip
NoPolish = Annotated[
    bool | None,
    typer.Option(
        "--no-polish",
        help="Leave the polish out. By default --polish decides.",
        rich_help_panel=OWN,
    ),
]
MaxSuspects = Annotated[
    float | None,
    typer.Option(help="How many rows, or which share of them, the polish may leave as they are. "
                 "0 by default.", rich_help_panel=OWN),
]  # fmt: skip
ClassWeight = Annotated[
    str | None,
    typer.Option(metavar="balanced|none", help="balanced gives rare classes the weight of frequent "
                 "ones. none by default.", rich_help_panel=OWN),
]  # fmt: skip
Calibrate = Annotated[
    bool | None,
    typer.Option(help="Fit probabilities to held-out rows. On by default where the capacity is "
                 "chosen from the data.", rich_help_panel=OWN),
]  # fmt: skip
Loss = Annotated[
    str | None,
    typer.Option(metavar="squared_error|absolute_error", help="What a regression "
                 "minimises. squared_error by default.", rich_help_panel=CURVE),
]  # fmt: skip

# -- the paper's algorithm -------------------------------------------------------------------------

Paper = Annotated[
    bool,
    typer.Option("--paper", help="Train as the paper does, by subgradient steps on the worst "
                 "sample. By default boxes are trained on the mean loss, and polished.",
                 rich_help_panel=PAPER),
]  # fmt: skip
Iterations = Annotated[
    int | None,
    typer.Option("--iterations", "-n", min=1, help="How many iterations. 10,000 by default.",
                 rich_help_panel=PAPER),
]  # fmt: skip
Init = Annotated[
    str | None,
    typer.Option(
        help="Where training starts: prototypes (default), gaussian or uniform.",
        rich_help_panel=PAPER,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(help="The loss to minimise: max (default), mean or top-k.",
                 rich_help_panel=PAPER),
]  # fmt: skip
TopK = Annotated[
    float | None,
    typer.Option(help="How many samples top-k is about, or which share of them. 0.1 by default.",
                 rich_help_panel=PAPER),
]  # fmt: skip
Step = Annotated[
    str | None,
    typer.Option(
        help="How long steps are: two-phase (default), polyak, constant or level.",
        rich_help_panel=PAPER,
    ),
]
PolyakTarget = Annotated[
    float | None,
    typer.Option(help="The loss that Polyak steps aim at. 0 by default.", rich_help_panel=PAPER),
]
PolyakFraction = Annotated[
    float | None,
    typer.Option(help="The share of Polyak steps in two phases. 0.5 by default.",
                 rich_help_panel=PAPER),
]  # fmt: skip
LearningRate = Annotated[
    float | None,
    typer.Option(help="The paper's ε of constant steps. 0.1 by default.", rich_help_panel=PAPER),
]
LinearEvery = Annotated[
    int | None,
    typer.Option(
        help="How many iterations pass between moves of W0. 100 by default.", rich_help_panel=PAPER
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="What carries iterations out: auto (default), dense, tree, sparse or sgd.",
        rich_help_panel=PAPER,
    ),
]
Iterate = Annotated[
    str | None,
    typer.Option(help="Which iterate to keep: the best (default) or the last.",
                 rich_help_panel=PAPER),
]  # fmt: skip
