"""The crash campaign: real processes killed at random and in chosen windows, judged from outside.

``python -m tests.campaign --emails 1000 --kills 30 --seed 1``
"""
