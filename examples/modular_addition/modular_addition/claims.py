"""What is judged, with criteria that were written down before the runs."""

from rb_interp.claims import Claim, Condition, Term

ORDER = Condition(Term("order", "bias", 0.8, "final", label="bias index"), ">=", 0.1)
CIRCLES = Condition(
    Term("fourier", "top_2", 0.8, "final", label="share of two frequencies"), ">=", 0.5
)
NEEDED = Condition(
    Term("attention_needed", "difference", 0.8, "final", label="drop less control"), ">=", 0.5
)
CLAIMS = (
    Claim("MA1", "A small initialisation learns the rule first.", "this example", (ORDER,)),
    Claim("MA2", "Its numbers lie on few circles.", "this example", (CIRCLES,)),
    Claim("MA3", "The rule needs L0's attention.", "this example", (NEEDED,)),
)
