"""Change what a model computes, and see whether the answer follows: every intervention beside its placebo."""
