"""Model files: the catalogue of what there is, and the store that fetches, verifies and finds them."""
