"""What can be done: commands, their registry and their providers. Nothing here knows of models or the daemon."""
