"""The paper's two Iris tables, over many splits."""

from __future__ import annotations

from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from maxplus.estimators import SubgradientLMMClassifier
from maxplus.experiments.contest import fit_or_raise
from maxplus.experiments.iris import (
    LMM_SETTINGS,
    MAX_SETTINGS,
    N_ITERATIONS,
    PAPER,
    IrisComparison,
    compare_on_iris,
)
from maxplus.plots import plot_comparison
from maxplus.reproduce.finding import Finding, Settings, Table, mean_and_spread

FULL_SEEDS, QUICK_SEEDS, QUICK_ITERATIONS = 10, 3, 5_000
# Slopes for as many units as training flowers.
SLOPES = (4.0, 20.0, 40.0)
GOAL_INTERPOLATED = 1e-3
GOAL_MEDIAN, GOAL_BEST, GOAL_ACCURACY = 0.6, 0.426, 0.933


def run(settings: Settings) -> Finding:
    """Train all three models on every split."""
    iterations = QUICK_ITERATIONS if settings.quick else N_ITERATIONS
    seeds = range(settings.n_seeds(FULL_SEEDS, QUICK_SEEDS))
    runs = [compare_on_iris(seed, iterations) for seed in settings.track(seeds, "Iris, splits")]
    worst = sorted(run.lmm_max.train.max_loss for run in runs)
    median, certified = worst[len(worst) // 2], sum(r.lmm_max.train.certified for r in runs)
    perfect = sum(r.lmm_max.train.accuracy == 1.0 for r in runs)
    accuracy = sum(r.lmm_max.test.accuracy for r in runs) / len(runs)
    text = (
        f"{len(runs)} random 70/30 splits, {iterations:,} iterations each. The LMM on the maximum "
        f"loss ends at a median training maximum of {median:.3f}, at best {worst[0]:.3f} (the "
        f"paper, on one split: {PAPER['LMM (max)'].train[0]}); all training flowers are right in "
        f"{perfect} of {len(runs)} runs, in {certified} of them provably (maximum loss below log "
        f"2). Its mean test accuracy is {accuracy:.1%}. The paper's test set has 45 flowers, so "
        "its 93.3 % and 91.1 % differ by one flower; hence many splits. Our MLP trains to a lower "
        "loss than the paper's; losses are not clipped. The paper does not state its k for Iris; "
        "we take 4, its value for MNIST."
    )
    if worst[0] > GOAL_BEST or median > GOAL_MEDIAN or accuracy < GOAL_ACCURACY:
        text += (
            f" Aimed for: median at most {GOAL_MEDIAN}, best at most {GOAL_BEST}, mean test "
            f"accuracy at least {GOAL_ACCURACY:.1%}; not all of it was reached at this scale."
        )
    all_units = [_one_unit_each(k, iterations) for k in settings.track(SLOPES, "H = N")]
    text += _one_unit_each_text(all_units)
    typical = min(runs, key=lambda run: abs(run.lmm_max.train.max_loss - median))
    return Finding(
        "MLP against LMM on Iris",
        text,
        [
            _table("train", runs), _table("test", runs), _times(runs),
            _one_unit_each_table(all_units),
        ],
        {
            "runs": [_values(run) for run in runs], "median": median, "best": worst[0],
            "one_unit_each": all_units,
        },
        {
            "comparison": plot_comparison(
                typical.lmm_max.loss_curve, typical.contestants, typical.n_classes,
                switch=typical.switch, sample="flower",
            )
        },
        f"{len(runs)} splits, {iterations:,} iterations" if settings.quick else "",
    )  # fmt: skip


def _one_unit_each(slope: float, iterations: int) -> dict[str, float]:
    """As many units as training flowers: the maximum loss before and after training."""
    X, y = load_iris(return_X_y=True)
    X, _, y, _ = train_test_split(X, y, test_size=0.3, random_state=0)
    settings = LMM_SETTINGS | MAX_SETTINGS | {"n_hidden": len(y), "slope": slope}
    model = SubgradientLMMClassifier(**settings, max_iter=iterations, random_state=0)
    fit_or_raise(model, X, y)
    return {"slope": slope, "first": float(model.loss_curve_[0]), "best": model.max_loss_}


def _one_unit_each_text(results: list[dict[str, float]]) -> str:
    lowest = min(results, key=lambda r: r["best"])
    reached = "is" if lowest["best"] < GOAL_INTERPOLATED else "is not"
    return (
        " With as many units as training flowers the paper's construction interpolates: the "
        "maximum loss is a matter of the slope k alone, about exp(−0.2·k) on Iris, whose nearest "
        "flowers of different classes are 0.2 apart. Training hardly improves on that start. "
        f"With k = {lowest['slope']:g} it is {lowest['best']:.1e}, which {reached} below "
        f"{GOAL_INTERPOLATED:g}; the paper says that it converges to zero and does not name k."
    )


def _one_unit_each_table(results: list[dict[str, float]]) -> Table:
    rows = [(f"{r['slope']:g}", f"{r['first']:.3g}", f"{r['best']:.3g}") for r in results]
    columns = ("slope k", "max loss at first", "max loss after training")
    return Table("As many units as training flowers", columns, rows)


def _table(part: str, runs: list[IrisComparison]) -> Table:
    rows = []
    for k, name in enumerate(PAPER):
        evaluations = [getattr(run.contestants[k], part) for run in runs]
        paper = getattr(PAPER[name], part)
        rows.append((
            name,
            paper[0], mean_and_spread(e.max_loss for e in evaluations),
            paper[1], mean_and_spread(e.mean_loss for e in evaluations),
            f"{paper[2]:.1%}", mean_and_spread((e.accuracy for e in evaluations), 1, 100) + " %",
        ))  # fmt: skip
    columns = (
        "model", "max loss (paper)", "max loss", "mean loss (paper)", "mean loss",
        "accuracy (paper)", "accuracy",
    )  # fmt: skip
    return Table(f"Iris, {part} flowers", columns, rows)


def _times(runs: list[IrisComparison]) -> Table:
    rows = [
        (
            name,
            "–" if paper.seconds != paper.seconds else f"{paper.seconds:.0f}",
            mean_and_spread((run.contestants[k].seconds for run in runs), 2),
        )
        for k, (name, paper) in enumerate(PAPER.items())
    ]
    return Table("Seconds of training", ("model", "paper", "ours"), rows)


def _values(run: IrisComparison) -> dict:
    return {
        "seed": run.seed,
        **{
            contestant.name: {
                "seconds": contestant.seconds,
                **{
                    f"{part}_{what}": getattr(getattr(contestant, part), what)
                    for part in ("train", "test")
                    for what in ("max_loss", "mean_loss", "accuracy")
                },
            }
            for contestant in run.contestants
        },
    }
