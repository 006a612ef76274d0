"""Inputs that nobody thought of, against what must hold for every input.

``python -m tests.fuzz`` (``make fuzz``) lets coverage lead the way, with atheris; the normal suite
runs every seed and every input ever found through the same checks, without it.
"""
