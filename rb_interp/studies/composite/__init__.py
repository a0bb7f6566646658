"""Composite functions of two anchors: is a pair that was never trained answered by inference, or by its mirror?

The study of paper 2, "Initialization is Critical to Whether Transformers Fit Composite Functions by Reasoning or
Memorizing" (arXiv 2405.05409).
"""
