"""Algorithms in Docker containers: started, watched, limited, and never left behind."""
