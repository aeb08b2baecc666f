"""Pixels and texts of figures."""

import numpy as np


def pixels(figure):
    """Return the figure as an array of colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def labels(artist):
    """Return all texts of a figure or of a part of it."""
    from matplotlib.text import Text

    return [text.get_text() for text in artist.findobj(Text) if text.get_text()]


def texts(figure):
    """Return all texts of a figure as one string."""
    return " ".join(labels(figure))
