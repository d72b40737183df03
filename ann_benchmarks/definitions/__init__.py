"""config.yml: algorithms, their arguments, versions."""
