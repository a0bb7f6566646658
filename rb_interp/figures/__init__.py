"""Figures of a study, drawn from its tables: they never touch a model. Matplotlib and pandas load at first use."""

from rb_interp.lazy import lazy_names

__all__ = ["FIGURES", "Evidence", "figures_of", "save_figures"]

__getattr__ = lazy_names(
    __name__,
    {
        "Evidence": "rb_interp.figures.evidence",
        "FIGURES": "rb_interp.figures.registry",
        "figures_of": "rb_interp.figures.registry",
        "save_figures": "rb_interp.figures.save",
    },
)
