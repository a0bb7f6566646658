"""A whole phase map, and readings of planted worlds."""

from dataclasses import replace

from rb_interp.runs.results import readings_table
from rb_interp.studies.composite.map import (
    BLOCK_GAMMAS,
    DEPTHS,
    GAMMAS,
    CompositeMapConfig,
    paper_decays,
)
from rb_interp.studies.composite.map_measure import map_readings

FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)  # learning rates of claim C10, in multiples of the preset's
WHOLE = {"gammas": GAMMAS, "block_gammas": BLOCK_GAMMAS, "depths": DEPTHS}
WHOLE |= {"factors": FACTORS, "unseen_factors": FACTORS}
MAP = CompositeMapConfig.from_preset("quick", **WHOLE, coarse_gammas=(0.3, 0.5, 0.8, 1.0))
MAP = replace(MAP, decays=paper_decays(MAP.train))


def known(answer):
    """Readings of 8 seeds: ``answer(sweep, setting, gamma)`` gives I and the accuracy on seen_test;
    S is 1 - I."""
    rows = []
    for sweep, config in MAP.sweeps.items():
        for gamma in config.gammas:
            setting = config.train.lr if "rate" in sweep else config.train.weight_decay
            inferential, fit = answer(sweep, setting, gamma)
            values = {"I": inferential, "S": 1 - inferential, "acc_seen_test": fit}
            for seed in range(8):
                place = {
                    "sweep": sweep,
                    "gamma": gamma,
                    "seed": seed,
                    "stage": "final",
                    "step": 9,
                    "set": "",
                }
                place |= dict.fromkeys(
                    ("layer", "head", "null", "null_mean", "null_sd", "p_value")
                ) | {"n": 1}
                rows += [
                    {**place, "probe": "phase", "quantity": name, "value": value, "untrained": 0.0}
                    for name, value in values.items()
                ]
    readings = readings_table(rows)
    return readings_table(readings, map_readings(readings, MAP))
