"""Capabilities that are part of famulus: the clock and the timer."""
