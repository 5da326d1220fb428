"""What tells a mistake of the user's from a mistake of ours."""


class UserError(Exception):
    """Something the user can mend; shown as a message without a traceback."""
