"""Points of a file with axes: which runs there are, and which of them train as one job."""

import pytest
from axes_file import TEXT, write

from rb_interp.errors import ConfigError
from rb_interp.runs.points import read_jobs

pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        # rates share a stack, up to four members; two gammas a seed
        (TEXT, [["parts/0-0"], ["parts/0-2", "parts/1-2"], ["parts/1-0"]]),
        ("members = 12" + TEXT.replace("members = 4", ""), [["runs/0", "runs/1"]]),
        (
            TEXT.replace("train.lr", "train.eps").replace("members = 4", ""),
            [["runs/0"], ["runs/1"]],
        ),
        (
            'study = "one"\nseeds = [0]\nrates = [[0.5, 0.1]]\n[axes]\ntrain.weight_decay = [0.0, 0.1]\n',
            [["runs/0"], ["runs/1"]],
        ),
        (
            'study = "one"\nseeds = [3]\n[[points]]\ntrain.lr = 0.1\n[[points]]\nmodel.norm = "pre"\n',
            [["runs/0"], ["runs/1"]],
        ),
        ('study = "one"\nseeds = [3]\npoints = []\n', [["runs/0"]]),
    ],
)
def test_runs_of_one_stack_are_one_job(text, jobs, tmp_path):
    def short(folder: str) -> str:
        kind, name = folder.split("/")
        batch = name.partition("-")[2] if kind == "parts" else ""
        return f"{kind}/{int(name[:3])}" + (f"-{name.rpartition('-')[2]}" if batch else "")

    _, points, made = read_jobs(write(tmp_path, text))
    assert [[short(folder) for folder in job.parts] for job in made] == jobs
    for point in points:  # every member once, each with one worker
        seeds = [seed for part in point.parts.values() for seed in part.seeds]
        assert tuple(seeds) == point.config.seeds
        assert point.config.train.workers == 1


def test_an_axis_that_rates_of_gammas_overrule_is_refused(tmp_path):
    """Else the run of the default rate would train at those of the preset, under the axis's name."""
    text = 'study = "anchor"\n[axes]\ntrain.lr = [1e-3]\n'
    with pytest.raises(ConfigError, match=r"train.lr has no effect.*say 'rates = \[\]'"):
        read_jobs(write(tmp_path, text))
    with pytest.raises(ConfigError, match=r"train.lr has no effect"):
        read_jobs(write(tmp_path, "gammas = [0.3, 0.4]\n" + text))
    read_jobs(write(tmp_path, "rates = []\n" + text))
