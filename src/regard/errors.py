"""The one exception that stands for a user's mistake."""


class UserError(Exception):
    """Something the user can mend: the message says what was wrong, where, and what to do.

    The command prints it as one line and exits with code 2; no traceback.
    """
