"""Files of figures: the same evidence gives the same bytes, and settings stay."""

import matplotlib
import pytest

from rb_interp.figures.kit import save_figures
from rb_interp.studies.anchor.figures import FIGURES

pytestmark = pytest.mark.wide


def test_same_evidence_gives_same_bytes_and_leaves_settings_alone(evidence, tmp_path):
    specs = {"tasks": FIGURES["tasks"]}
    first = save_figures(specs, evidence, tmp_path / "first")
    with matplotlib.rc_context(
        {"font.size": 23, "axes.facecolor": "black", "svg.fonttype": "none"}
    ):
        before = dict(matplotlib.rcParams)
        again = save_figures(specs, evidence, tmp_path / "again")
        assert dict(matplotlib.rcParams) == before
    assert list(first) == list(again) == list(specs)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    assert len(list((tmp_path / "first").iterdir())) == 2 * len(specs)
