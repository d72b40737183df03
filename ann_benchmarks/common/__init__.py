"""What every room uses: errors, files that are whole or absent, the command line, numbers in words."""
