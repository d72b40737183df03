"""The exception for mistakes that the user can mend."""


class UserError(Exception):
    """Something the user can put right; its text is one line that says what is wrong and what to do."""
