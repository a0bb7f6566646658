"""The figure of the report."""

from rb_interp.figures import kit


def draw(evidence):
    figure, [panels] = kit.panels(1, 3, 2.6)
    for axes, claim in zip(panels, evidence.claims, strict=True):
        (condition,) = claim.conditions
        with kit.missing(axes):
            kit.rates(axes, evidence, kit.Series(condition.of), untrained=True)
            kit.threshold(axes, evidence, claim.id, gamma=condition.of.gamma)
            axes.set_ylabel(condition.statistic)
    return figure


FIGURES = {"modular_addition": draw}
