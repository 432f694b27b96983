"""The paths of the server, one file a group."""
