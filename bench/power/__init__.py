"""What the machine draws, read from the sensors it has; nothing is estimated where it has none."""
