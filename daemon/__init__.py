"""The service: what runs and how it is wired together."""
