"""From utterance to outcome."""
