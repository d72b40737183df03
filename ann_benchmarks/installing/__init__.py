"""install.py: put what an algorithm needs onto this machine."""
