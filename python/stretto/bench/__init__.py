"""Benchmarks that anyone can run: `python -m stretto.bench decode`.

Every system runs in processes of its own; all of them are measured in turns, and only what computes the right
logits is timed.
"""
