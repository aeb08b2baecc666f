"""The gallery: its order (what it is, what it tells, what one does with it), and how it draws."""

ORDER = (
    "boxes",
    "iris_log2",
    "clinic",
    "flips",
    "certified_digits",
    "suspects",
    "ensemble",
    "calibration",
    "regression",
    "grid_search",
    "callback",
    "step_rule",
    "torch_layers",
    "shortest_paths",
    "schedule",
)


class InOrder:
    """Sphinx-Gallery's key of a script; one that is not named comes last."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def as_on_other_pages(settings: dict, script: str) -> None:
    """Each script begins without figures, in the style of docs/matplotlibrc."""
    import matplotlib
    import matplotlib.pyplot as plt

    plt.close("all")
    matplotlib.rc_file_defaults()
