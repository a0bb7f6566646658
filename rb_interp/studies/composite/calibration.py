"""Which claims read a mechanism off attention or vectors, with error rates that have not been measured.

A probe is calibrated on hand-written models whose mechanism is known, and on perturbed copies of them. None has been
calibrated on post-norm models of two layers, so these verdicts are shown as not calibrated, and are not withheld.
Claims that rest on interchange or knock-outs (F4 to F6) and on answers (C) need no calibration.
"""

from __future__ import annotations

from rb_interp.claims import Calibration, Standing
from rb_interp.studies.composite.config import CompositeConfig

BY_READING = ("F1", "F2", "F3", "F9", "D1", "D2", "D3", "D4", "D5")


def calibration(config: CompositeConfig) -> Calibration:
    """What is known of the probes' error rates on models of this configuration: nothing.

    >>> calibration(CompositeConfig.from_preset("quick")).standings["F1"].calibrated
    False
    """
    model = config.model
    family = f"norm={model.norm}, {model.n_layers} layers"
    return Calibration(family, dict.fromkeys(BY_READING, Standing(False)))
