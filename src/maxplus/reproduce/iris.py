"""The paper's two Iris tables, over many splits."""

from __future__ import annotations

from maxplus.experiments.iris import N_ITERATIONS, PAPER, IrisComparison, compare_on_iris
from maxplus.plots import plot_comparison
from maxplus.reproduce.finding import Finding, Settings, Table, mean_and_spread

FULL_SEEDS, QUICK_SEEDS, QUICK_ITERATIONS = 10, 3, 5_000
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
    typical = min(runs, key=lambda run: abs(run.lmm_max.train.max_loss - median))
    return Finding(
        "MLP against LMM on Iris",
        text,
        [_table("train", runs), _table("test", runs), _times(runs)],
        {"runs": [_values(run) for run in runs], "median": median, "best": worst[0]},
        plot_comparison(
            typical.loss_curve, typical.contestants, typical.n_classes,
            switch=typical.switch, sample="flower",
        ),
        f"{len(runs)} splits, {iterations:,} iterations" if settings.quick else "",
    )  # fmt: skip


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
