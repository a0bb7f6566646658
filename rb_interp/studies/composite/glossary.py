"""What the words of the composite study's report mean, in the order in which a reader meets them."""

from rb_interp.figures.numbers import two_digits
from rb_interp.probes.neuron_groups import ALIKE
from rb_interp.studies.composite.phase import DECIDED
from rb_interp.studies.composite.task import FITTED

GLOSSARY: dict[str, str] = {
    "key, a1, a2, last, noise": (
        "Roles of positions. The key is directly followed by two anchors, a1 and a2; last is the last position, where "
        "the answer is read; noise is everything else."
    ),
    "seen_train, seen_test, unseen": (
        "Fresh rows of trained pairs with training keys, rows of trained pairs with test keys, and rows of the pair "
        "that was never trained. A test key is one that never stood at its position in training."
    ),
    "exception": "A pair that is trained with another shift than the sum of its anchors' shifts.",
    "inferential, symmetric": (
        "Two answers to the unseen pair: key plus the shifts of both anchors, or what the mirrored pair, which is an "
        "exception, was trained to give. I and S are the shares of rows answered so, O is the rest."
    ),
    "phase": (
        f"unfit: accuracy on seen_test below {two_digits(FITTED)}. Else inferential where I is at least "
        f"{two_digits(DECIDED)}, symmetric where S is, and mixed where neither is. At the last step."
    ),
    "flow": (
        "By which positions key and pair reach the last one, told by interchange: via last (L0 brings the pair to the "
        "last position, L1 the key), via anchors (L0 brings the key to both anchors, L1 both to the last position), "
        "via a2 (all of it through the second anchor), several (none of these alone), none (no pair of rows answered "
        "rightly)."
    ),
    "interchange, source, kb_ps, ks_pb": (
        "The residual stream after L0 is taken from a source row at some roles, while a base row is run. kb_ps is the "
        "answer of the base's key with the source's pair, ks_pb that of the source's key with the base's pair."
    ),
    "place of the exception": (
        "The edge of L0's attention, from one role to another, whose loss turns the exception's rows to the "
        "inferential answer while the other seen pairs keep theirs; none where no edge does. Even seeds suggest a "
        "place for each kind of member, odd seeds test it. Exploratory."
    ),
    "participation ratio (PR), stable rank": (
        "Effective number of directions of a matrix with singular values s: (Σs²)² / Σs⁴, and Σs² over the largest s². "
        "Of the items: the first of these, of the eigenvalues of their covariance."
    ),
    "neurons, condensation": (
        "Neurons of a matrix are its columns, the input weights of one output each. Condensation is the share of their "
        f"pairs with an absolute cosine above {two_digits(ALIKE)}."
    ),
    "C(k)": "Mean cosine of the embeddings of items k apart, less the mean of all items.",
    "placebo": (
        "The same intervention where it should do nothing: the source is the base with its noise redrawn, or two noise "
        "positions stand in place of the two anchors."
    ),
    "v, u, grid": (
        "v is the last position after L1's attention, its residual connection and, in post-norm models, its LayerNorm; "
        "u is L1's value vector at the first anchor's position. The grid is rows of every trained pair that is no "
        "exception, with keys 30 to 40 at one early position and some draws of noise that all of them share."
    ),
    "equal, different targets": (
        "Pairs of rows of the grid with the same noise, whose answers (for v) or results of the first step, key plus "
        "the first shift (for u), are the same, or are not."
    ),
    "share of variance": (
        "The part of a vector's variance over rows that lies between groups of rows, adjusted for the number of groups "
        "(omega squared): 1 where the group fixes the vector, about 0 where it says nothing."
    ),
}
