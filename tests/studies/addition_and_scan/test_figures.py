"""Figures of the study of addition and SCAN."""

import numpy as np
import pytest
from report.pages import check_page

from rb_interp.claims import Term
from rb_interp.figures.kit import draw
from rb_interp.studies.addition_and_scan import ADDITION_AND_SCAN
from rb_interp.studies.addition_and_scan.figures import draw_sums

pytestmark = pytest.mark.wide


def test_the_page_shows_every_figure_and_every_verdict(smoke_run):
    evidence = smoke_run("addition-and-scan").evidence
    check_page(ADDITION_AND_SCAN, evidence)
    images = [
        axes.images[0]
        for axes in draw(draw_sums, evidence).axes
        if axes.images and axes.get_title(loc="left")
    ]
    mean = evidence.mean_array(Term("answers", "sums", 0.8, "final", sweep="addition_high"))
    np.testing.assert_array_equal(images[3].get_array(), mean)
