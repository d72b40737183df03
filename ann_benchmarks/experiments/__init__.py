"""Experiments: files that say what is measured, how it is shown, and what others have found."""
