"""Results that others can check: bundles, folders with everything that a report rests on."""
