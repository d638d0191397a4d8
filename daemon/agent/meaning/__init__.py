"""What a sentence means that no template knows: by its likeness to what people say, and rules for its arguments."""
