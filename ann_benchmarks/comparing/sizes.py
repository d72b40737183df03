"""Shares on a command line."""

import argparse


def size(text: str) -> float:
    """Read the size of a difference, such as 5% or 0.05."""
    number = _number(text)
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share below 100%, such as 5% or 0.05")
    return number


def share(text: str) -> float:
    """Read a recall."""
    number = _number(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share between 0 and 1, such as 0.95")
    return number


def error_rate(text: str) -> float:
    """Read the chance of a false verdict."""
    number = _number(text)
    if not 0 < number <= 0.5:
        raise argparse.ArgumentTypeError(f"'{text}' is no chance above 0 and up to 0.5, such as 0.05")
    return number


def _number(text: str) -> float:
    try:
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return -1.0
