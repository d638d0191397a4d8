"""Models behind protocols. Nothing here knows of agents, buses, capabilities or the catalogue."""
