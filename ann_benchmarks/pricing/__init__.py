"""What measured servers cost: files of prices, the instance that fits a server, and what it must achieve."""
