"""The parts of `accuracy.py`: data, settings, peers."""
