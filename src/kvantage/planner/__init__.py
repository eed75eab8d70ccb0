"""What should happen, before a GPU-hour is spent: geometry, memory and time, from configs and hardware files.

Everything here is a prediction and says so. What a config does not tell is refused by name, never guessed.
"""
