"""What the server did during a run: its CPU and disk, its caches, and what its sessions waited for."""
