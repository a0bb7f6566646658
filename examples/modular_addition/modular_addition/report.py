"""The figure and the sentences of the report."""

from rb_interp.figures.panels import over_seeds, seeds_by_gamma, threshold_at, written
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import new_figure, styled
from rb_interp.report.section import Narrative


@styled
def draw(evidence):
    figure = new_figure(2.6)
    for axes, claim in zip(figure.subplots(1, 3), evidence.claims, strict=True):
        (condition,) = claim.conditions
        seeds_by_gamma(axes, evidence, condition.of.probe, condition.of.quantity)
        threshold_at(axes, evidence, claim.gamma, condition.threshold, written(evidence, claim.id))
        axes.set_ylabel(condition.statistic)
    return figure


def narrative(evidence) -> Narrative:
    told = [f"{over_seeds(evidence, 'order', 'acc_held_out', g)} at γ = {g:g}" for g in evidence.gammas]
    return Narrative((f"Final accuracy on pairs held out: {'; '.join(told)}.",))


SEEN = "Dots are seeds, bars their median and range, grey bars the mean of the untrained models."
CAPTION, IDS = Caption(SEEN, "seeds below the dashed lines (MA1 to MA3)."), ("MA1", "MA2", "MA3")
FIGURES = (FigureSpec("modular_addition", "Order, circles and attention", draw, lambda evidence: CAPTION, IDS),)
