"""What is to be done: the plan of a run."""
