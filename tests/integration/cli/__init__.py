"""The command line over real state folders, sockets and processes."""
