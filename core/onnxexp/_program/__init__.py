"""The exported program: run, verify, print and save it."""
