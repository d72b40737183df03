"""How sure numbers are: intervals, noise, effective sample sizes, speed at a recall. It knows no files."""
