"""What a figure holds."""

import numpy as np
from matplotlib.text import Text


def texts(figure) -> str:
    """Every text of a figure, with plain spaces."""
    return (
        " ".join(text.get_text() for text in figure.findobj(Text))
        .replace("\n", " ")
        .replace("\xa0", " ")
    )


def drawn(axes, values, colour=None) -> bool:
    """Whether some line of the axes has these heights, in a colour if one is given."""
    values = np.asarray(values, dtype=float)
    lines = [
        line
        for line in axes.lines
        if colour in (None, line.get_color(), line.get_markeredgecolor())
    ]
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
    return any(len(y) == len(values) and np.allclose(y, values) for y in heights)
