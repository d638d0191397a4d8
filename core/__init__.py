"""The ground floor: errors and plain values that every room may use."""
