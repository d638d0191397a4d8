"""What can be wrong with a board and its famulus, and the command that mends it. Works without the service."""
