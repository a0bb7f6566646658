"""What the words of the anchor study's report mean, in the order in which a reader meets them."""

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.numbers import two_digits
from rb_interp.interventions.circuit_names import SHARE_MIN
from rb_interp.report.glossary import shared
from rb_interp.studies.anchor.error_rates import LEAST_TRUE_POSITIVE, MOST_FALSE_POSITIVE

GLOSSARY: dict[str, str] = {
    "key, anchors, noise": (
        "A key stands immediately before its anchors, anywhere in the sequence; the other tokens are noise. The "
        "label depends on key and anchors alone."
    ),
    **shared("memory, reasoning"),
    "stages": (
        "init: step 0, the untrained model. half: the first evaluation at which the loss on rsn_train is at most "
        f"half of ln d_vocab (the last one where that never happens). matched: the step at which the γ = {SMALL:g} "
        "member of the same seed reaches half. final: the last step."
    ),
    **shared("B, B_test", "TV"),
    "u1, s1, s2": (
        "Leading left singular vector of L0's W_V (in the residual stream, x W_V) and its two largest singular values."
    ),
    "W_V W_O": (
        "What L0's head passes on of what it reads: its OV matrix. Other bases of the head's values give W_V another "
        "spectrum and another leading direction with the same logits, and leave W_V W_O as it is."
    ),
    "centred": (
        "Less the mean over all anchors and keys in use, so that a direction shared by all tokens does not count."
    ),
    "share of variance": (
        "How much of a component's output at the last position a grouping of inputs explains: omega squared, 1 at "
        "most, about 0 where it explains nothing."
    ),
    "effect, control": (
        "Effect: what an intervention on a model changes, mean over inputs. Control: an intervention of the same form "
        "and size that leaves the mechanism alone (a random direction, a noise token, the same input with other "
        "noise), and what that changes. An effect no larger than its control shows nothing."
    ),
    "nats lost, accuracy lost": (
        "Cross entropy of the right answer after an intervention less that before, in nats; accuracy before less that "
        "after. Negative: the model got better."
    ),
    "interchange": (
        "A component's output is taken from another input. If it carries the key (or the sum), the answer must become "
        "the one with the other input's key (or sum): the predicted answer."
    ),
    "ablation": (
        "A component's output is set to zero, to its mean over inputs, or to its value on another input (resample). "
        "What is lost shows what the component was needed for. It does not say what the component computes."
    ),
    "recovered": (
        "Share of the logit difference between two inputs that comes back when one component, at one role's positions, "
        "is taken from the other input: 0 none, 1 all. Below 0 or above 1 where other components undo or exceed it."
    ),
    "route, circuit by cause": (
        "Changing the key alone, or one anchor alone, changes the answer. A route is the positions at which the last "
        "layer has this change from; its share is what the answer's logit difference follows when the last layer sees "
        "the change there alone. A circuit's name by cause is the route that carries at least "
        f"{two_digits(SHARE_MIN)}; the name by attention, beside it, says where the model looks."
    ),
    "calibrated": (
        "Whether the error rates of the probe behind a claim have been measured on models whose mechanism is known and "
        f"are good enough: a true-positive rate of at least {two_digits(LEAST_TRUE_POSITIVE)} and a false-positive "
        f"rate of at most {two_digits(MOST_FALSE_POSITIVE)}. Where they are known and missed, the verdict is withheld "
        "(NOT JUDGED). Losses, contrasts and geometry need none."
    ),
    "true- and false-positive rate": (
        "Of perturbed copies of hand-written models: the share of those with the mechanism of which the probe says so, "
        "and of those without it of which it says so all the same. With Clopper-Pearson intervals."
    ),
}
