"""Order of the examples in the gallery, and the style of their figures."""

ORDER = (
    "boxes",
    "iris_log2",
    "clinic",
    "counterfactuals",
    "certified_digits",
    "label_errors",
    "ensemble",
    "calibration",
    "regression",
    "grid_search",
    "callback",
    "step_rule",
    "custom_objective",
    "torch_layers",
    "shortest_paths",
    "schedule",
)


class InOrder:
    """Sort key for Sphinx-Gallery. Scripts that are not in `ORDER` come last."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def reset_style(settings: dict, script: str) -> None:
    """Close all figures and restore the style of docs/matplotlibrc."""
    import matplotlib
    import matplotlib.pyplot as plt

    plt.close("all")
    matplotlib.rc_file_defaults()
