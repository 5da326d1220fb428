"""What `verbose` shows: records of the logger "skattn"."""

import logging


def progress_logger():
    """Return the logger, with a handler to stderr if nobody has set one up."""
    logger = logging.getLogger("skattn")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
    return logger
